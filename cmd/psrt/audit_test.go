package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"psrt/sched/kv"
)

// A job that records is judged to have kept its promise; a stronger one it did
// not promise is broken, and a record that was tampered with too.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	data, records := write(t, dir, "train.libffm", rows(3000, 1)), filepath.Join(dir, "records")
	o := psrt(t, "train", "--data", data, "--model", "deepfm", "--hidden", "8", "--sync", "bsp", "--servers", "2", "--workers", "2", "--batch", "256",
		"--audit", records, "--audit-rate", "0.2", "--quiet")
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	if o = psrt(t, "audit", records); o.code != 0 || !strings.Contains(o.stdout, "bsp kept") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	o = psrt(t, "audit", records, "--json")
	var rep struct {
		Consistent bool
		Runs       []struct {
			Run, Consistency               string
			Workers, Lanes, Pulls, Values  int
			Unjudged, Broken, Pushes, Keys int
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &rep); err != nil || o.code != 0 || !rep.Consistent || len(rep.Runs) != 1 {
		t.Fatalf("exit %d, %v: %s", o.code, err, o.stdout)
	}
	if r := rep.Runs[0]; r.Consistency != "bsp" || r.Workers != 2 || r.Lanes < 2 || r.Pulls < 40 || r.Pushes < 40 || r.Values < 500 || r.Keys < 10 || r.Unjudged+r.Broken > 0 {
		t.Errorf("%+v", r)
	}
	if o = psrt(t, "audit", records, "--sync", "ssp", "--staleness", "3", "--run", rep.Runs[0].Run); o.code != 0 || !strings.Contains(o.stdout, "ssp(3) kept") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	// A worker's record without its pushes: what it saw of them was never sent.
	for _, name := range glob(t, records, "*-worker0-*") {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if o = psrt(t, "audit", records); o.code != 0 || !strings.Contains(o.stdout, "no record of worker 0") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	return names
}

// Asynchronous workers, judged by bsp: exit 3, and the pair.
func TestAuditOfABrokenPromise(t *testing.T) {
	dir := t.TempDir()
	data, records := write(t, dir, "train.libffm", rows(3000, 1)), filepath.Join(dir, "records")
	o := psrt(t, "train", "--data", data, "--model", "fm", "--sync", "asp", "--workers", "3", "--batch", "64", "--audit", records, "--audit-rate", "1", "--quiet")
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	if o = psrt(t, "audit", records); o.code != 0 || !strings.Contains(o.stdout, "asp kept") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
	o = psrt(t, "audit", records, "--sync", "bsp")
	if o.code != 3 || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, "pull") || !strings.Contains(o.stderr, "push") || !strings.Contains(o.stdout, "bsp BROKEN") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}

func TestAuditIsToldWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(600, 1))
	junk := t.TempDir()
	write(t, junk, "a.psrt-audit", "no record at all")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"audit"}, "one directory"},
		{[]string{"audit", dir}, "--audit"},
		{[]string{"audit", junk}, "not a record"},
		{[]string{"audit", filepath.Join(dir, "nowhere")}, "nowhere"},
		{[]string{"audit", dir, "--staleness", "2"}, "--sync ssp"},
		{[]string{"audit", dir, "--sync", "none"}, "must be one of bsp"},
		{[]string{"train", "--data", data, "--audit-rate", "0.5"}, "--audit-rate has no effect without --audit"},
		{[]string{"train", "--data", data, "--audit", dir, "--audit-rate", "2"}, "--audit-rate 2"},
		{[]string{"train", "--data", data, "--audit", dir, "--audit-limit", "1KiB"}, "--audit-limit"},
		{[]string{"serve", "--token-file", filepath.Join(dir, "token"), "--servers", "2", "--rank", "1", "--coordinator", "127.0.0.1:1", "--audit", dir}, "same --audit-run"},
	} {
		if o := psrt(t, c.args...); o.code != 2 || !strings.Contains(o.stderr, c.want) || strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: exit %d, want %q in: %s", c.args, o.code, c.want, o.stderr)
		}
	}
}

// Trainers of one's own are recorded where the server and they are told to, and judged.
func TestServeAudit(t *testing.T) {
	dir := t.TempDir()
	token, records := filepath.Join(dir, "token"), filepath.Join(dir, "records")
	s := serveProcess(t, "--listen", "127.0.0.1:0", "--token-file", token, "--tables", write(t, dir, "tables.yaml", serveTables), "--sync", "bsp", "--audit", records, "--audit-rate", "1")
	const steps = 5
	c := connect(t, kv.Config{Servers: []string{s.ready.Address}, TokenFile: token, Audit: records})
	table := openTable(t, c, "sum")
	for range steps {
		pullSum(t, table)
		if err := errors.Join(table.Push([]uint64{7}, []float32{1, 1}, kv.Options{}), c.Tick(0)); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	if _, code := s.end(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit %d: %s", code, s.stderr)
	}
	if o := psrt(t, "audit", records); o.code != 0 || !strings.Contains(o.stdout, "bsp kept") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
