package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/tiers/ckpt/files"
)

// TestPlaces: nothing is written where it would not be found again, or something else
// would be found in its place.
func TestPlaces(t *testing.T) {
	t.Chdir(t.TempDir())
	refused := func(err error, want string) {
		t.Helper()
		var e *PlaceError
		if !errors.As(err, &e) || !e.BadInput() || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, name := range []string{"s3://b/m", "hdfs://n/m", "file:///m"} {
		_, err := Begin(name)
		refused(err, "a path of this machine")
		refused(Replaceable(name), "a path of this machine")
	}
	for _, name := range []string{"hdfs://n/m", "S3://b/m", "file:///m"} {
		_, err := OpenHistory(background, name, HistoryOptions{})
		refused(err, "want a directory or s3://bucket/prefix")
		_, err = Open(name)
		refused(err, "want a directory or s3://bucket/prefix")
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}

	put := func(name string) {
		t.Helper()
		check(t, os.MkdirAll(filepath.Dir(name), 0o777))
		check(t, os.WriteFile(name, nil, 0o666))
	}
	// An export is what psrt eval reads.
	put("export/EXPORT.json")
	_, err := Begin("export")
	refused(err, "holds an export")
	refused(Replaceable("export"), "holds an export")
	_, err = OpenHistory(background, "export", HistoryOptions{})
	refused(err, "holds an export")
	// A history, with HEAD or without.
	put("history/" + manifestFile(3))
	refused(Replaceable("history"), "holds the history")
	_, err = Begin("history")
	refused(err, "holds the history")

	put("foreign/notes.txt")
	refused(Replaceable("foreign"), "foreign has notes.txt in it")
	check(t, Replaceable("foreign", "notes.txt"))
	check(t, os.MkdirAll(filepath.Join("disk", "lost+found"), 0o777))
	check(t, Replaceable("disk"))
	put("damaged/" + ManifestName)
	refused(Replaceable("damaged"), "or remove damaged")
	check(t, Replaceable("missing"))
	check(t, os.Mkdir("empty", 0o777))
	check(t, Replaceable("empty"))
	in, err := Begin("empty") // and what a killed writer leaves
	check(t, err)
	check(t, Replaceable("empty"))
	check(t, in.Abort())
	check(t, makeModel(1, 6).save(files.OS{}, "model", false))
	put("model/report.html")
	check(t, Replaceable("model"))
	if _, err := os.Stat("model/report.html"); err != nil {
		t.Error(err)
	}
}
