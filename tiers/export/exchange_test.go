package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/tiers/export/inference"
	"psrt/tiers/export/outdir"
)

// TestExchangedTables: no table of another export is used, however alike.
func TestExchangedTables(t *testing.T) {
	a, b := makeWorld(rand.New(rand.NewPCG(1, 2)), 4000), makeWorld(rand.New(rand.NewPCG(1, 2)), 4000)
	for _, row := range b.rows[1] {
		row[0]++ // the same keys, so files of one size
	}
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	for i, w := range []*world{a, b} {
		_, err := Write(context.Background(), w.save(t, 1, false), dirs[i], Options{Kind: Inference})
		check(t, err)
	}
	path := filepath.Join(dirs[0], "table-1.rows")
	mine, err := os.ReadFile(path)
	check(t, err)
	other, err := os.ReadFile(filepath.Join(dirs[1], "table-1.rows"))
	check(t, err)
	if len(mine) != len(other) || bytes.Equal(mine, other) {
		t.Fatalf("%d and %d bytes: they would be told apart anyway", len(mine), len(other))
	}
	refused := func(err error, want string) {
		t.Helper()
		if !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check(t, os.WriteFile(path, other, 0o666))
	_, err = Open(dirs[0])
	refused(err, "it is of another model")

	// A copy that was broken off: the head of one, the rest of the other.
	check(t, os.WriteFile(path, append(bytes.Clone(mine[:4096]), other[4096:]...), 0o666))
	m, err := Open(dirs[0])
	check(t, err)
	defer m.Close()
	for key := range a.rows[1] {
		if _, err = m.Table(1).Gather([]uint64{key}, make([]float32, 5)); err == nil {
			t.Errorf("key %d of a mixed file is answered", key)
		}
	}
	refused(err, "is another table's")

	// Files of an earlier psrt have no digests: their SHA-256 is compared at once.
	old := filepath.Join(t.TempDir(), "old")
	check(t, os.CopyFS(old, os.DirFS(filepath.Join("testdata", "format1-inference"))))
	path = filepath.Join(old, "table-1.rows")
	mine, err = os.ReadFile(path)
	check(t, err)
	other = bytes.Clone(mine)
	other[4096+20] ^= 1 // in a block, which is not looked at before it is used
	check(t, os.WriteFile(path, other, 0o666))
	one, err := inference.Open(path)
	check(t, err)
	check(t, one.Close())
	_, err = Open(old)
	refused(err, "SHA-256")
}

// TestExchangedText: a text file of another export is refused where it was not edited.
func TestExchangedText(t *testing.T) {
	w := makeWorld(rand.New(rand.NewPCG(3, 4)), 40)
	mine, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	_, err := Write(context.Background(), w.save(t, 1, false), mine, Options{Kind: Text})
	check(t, err)
	for _, row := range w.rows[1] {
		row[0]++
	}
	m := w.save(t, 1, false)
	m.Digest = "" // as of a delta, which has none: the headers are alike
	_, err = Write(context.Background(), m, other, Options{Kind: Text})
	check(t, err)
	path := filepath.Join(mine, "table-1.tsv")
	was, err := os.ReadFile(path)
	check(t, err)
	lines := strings.Split(string(was), "\n")
	b, err := os.ReadFile(filepath.Join(other, "table-1.tsv"))
	check(t, err)
	now := strings.Split(string(b), "\n")
	now[1] = lines[1] // the header
	edited := strings.Join(append(now[:len(now)-2], "#end", ""), "\n")
	in := func() error {
		_, err := Import(context.Background(), []string{mine}, filepath.Join(t.TempDir(), "model"), ImportOptions{})
		return err
	}
	check(t, in())
	check(t, os.WriteFile(path, []byte(edited), 0o666))
	check(t, in())
	sum := crc32.Checksum([]byte(strings.TrimSuffix(edited, "#end\n")), crc32.MakeTable(crc32.Castagnoli))
	whole := strings.TrimSuffix(edited, "\n") + fmt.Sprintf(" %d %08x\n", len(w.rows[1]), sum)
	check(t, os.WriteFile(path, []byte(whole), 0o666))
	if err := in(); !errors.Is(err, outdir.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "of another export") {
		t.Errorf("%v", err)
	}
}
