package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/sched/train"
)

// scoring is a model, rows of which some have ids that it does not know, and what one
// process makes of them.
type scoring struct {
	t                *testing.T
	dir, model, data string
	one              []byte
}

func newScoring(t *testing.T) *scoring {
	t.Helper()
	s := &scoring{t: t}
	s.model, s.data, _ = trained(t)
	s.dir = t.TempDir()
	text := rows(9001, 5) // two runs and a piece, so that ranks have unequal shares
	s.data = write(t, s.dir, "new.libffm", text+"1 0:777777:1 1:888888:1\n")
	s.one = s.scores("one")
	return s
}

// scores is the file that predict with such flags makes.
func (s *scoring) scores(name string, flags ...string) []byte {
	s.t.Helper()
	out := filepath.Join(s.dir, name)
	var r train.Scored
	text := ok(s.t, append([]string{"predict", "--model", s.model, "--data", s.data, "--out", out, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	if r.Rows != 9002 || r.Features == 0 || r.FeaturesAfter != r.Features {
		s.t.Errorf("predict %v: %s, want 9002 rows and as many features before as after", flags, text)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		s.t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "*.part")); len(left) > 0 {
		s.t.Errorf("predict %v left %v", flags, left)
	}
	return b
}

func (s *scoring) same(name string, flags ...string) {
	s.t.Helper()
	if got := s.scores(name, flags...); !bytes.Equal(got, s.one) {
		s.t.Errorf("predict %v: %d bytes that differ from one process's %d", flags, len(got), len(s.one))
	}
}

// However rows are shared out, and wherever the model's are, the scores are the same
// bytes and the figures the same digits.
func TestPredictOverRanks(t *testing.T) {
	t.Parallel()
	s := newScoring(t)
	s.same("workers", "--workers", "3")
	s.same("servers", "--workers", "2", "--servers", "2", "--transport", "tcp")
	labelled := s.data
	text, err := os.ReadFile(labelled)
	if err != nil {
		t.Fatal(err)
	}
	s.data = write(t, s.dir, "bare.libffm", regexp.MustCompile(`(?m)^[01] `).ReplaceAllString(string(text), ""))
	s.same("bare", "--workers", "2")
	s.same("bareservers", "--workers", "2", "--servers", "1")
	s.data = labelled
	for _, flags := range [][]string{{"--workers", "2"}, {"--workers", "3", "--servers", "1"}} {
		eval := []string{"eval", "--model", s.model, "--data", s.data, "--json"}
		want, got := ok(t, eval...), ok(t, append(eval, flags...)...)
		if got != want {
			t.Errorf("eval %v: %s, one process says %s", flags, got, want)
		}
	}

	table := write(t, s.dir, "tables.yaml", "tables:\n- {name: embedding, id: 1, dim: 17, rule: adam}\n")
	token := filepath.Join(s.dir, "token")
	live := serveProcess(t, "--listen", "127.0.0.1:0", "--token-file", token, "--tables", table, "--load", s.model, "--sync", "bsp")
	flags := []string{"--live", live.ready.Address, "--token-file", token}
	s.same("live", flags...)
	s.same("live2", append(flags, "--workers", "2")...)
	live.end(syscall.SIGTERM)
	// Without a tables file they are as the model has them, whatever saves and starts follow.
	saved := filepath.Join(s.dir, "saved")
	for i, from := range []string{s.model, saved} {
		live = serveProcess(t, "--listen", "127.0.0.1:0", "--token-file", token, "--load", from, "--save", saved)
		s.same(fmt.Sprint("own", i), "--live", live.ready.Address, "--token-file", token)
		live.end(syscall.SIGTERM)
	}
	live = serveProcess(t, "--listen", "127.0.0.1:0", "--token-file", token, "--load", s.model, "--servers", "2", "--replicas", "2", "--allow-same-host")
	s.same("own2", "--live", live.ready.Address, "--token-file", token)
	live.end(syscall.SIGTERM)
}

// Ranks that are started one by one find each other as those of psrt train do.
func TestPredictByHand(t *testing.T) {
	s := newScoring(t)
	flags := []string{"--model", s.model, "--data", s.data, "--out", filepath.Join(s.dir, "hand"), "--servers", "1", "--workers", "2"}
	for r, o := range commandTogether(t, s.dir, "predict", flags, flags, flags) {
		if o.code != 0 {
			t.Fatalf("rank %d: exit %d\n%s", r, o.code, o.stderr)
		}
	}
	if b, err := os.ReadFile(filepath.Join(s.dir, "hand")); err != nil || !bytes.Equal(b, s.one) {
		t.Errorf("%v, %d bytes that are not one process's", err, len(b))
	}
	elsewhere := []string{"--emit", filepath.Join(s.dir, "elsewhere")}
	for r, o := range commandTogether(t, s.dir, "predict", flags, nil, elsewhere) { // nobody would read it
		if o.code == 0 || r == 2 && (o.code != 2 || !strings.Contains(o.stderr, "--emit")) {
			t.Errorf("rank %d: exit %d\n%s", r, o.code, o.stderr)
		}
	}
}

// npy reads what emit wrote: its head, and what follows.
func npy(t *testing.T, path, kind, shape string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 10 || string(b[:8]) != "\x93NUMPY\x01\x00" {
		t.Fatalf("%s begins with %q", path, b[:min(len(b), 10)])
	}
	n := 10 + int(binary.LittleEndian.Uint16(b[8:]))
	want := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	if n%64 != 0 || b[n-1] != '\n' || strings.TrimSpace(string(b[10:n])) != want {
		t.Fatalf("%s: head of %d bytes %q, want %q", path, n, b[10:n], want)
	}
	return b[n:]
}

// An index has the ids of the field asked for and the vectors of the rows, from any
// number of processes; the vectors are those that the exported model has.
func TestPredictEmits(t *testing.T) {
	s := newScoring(t)
	var first []byte
	for i, flags := range [][]string{nil, {"--workers", "3"}, {"--workers", "2", "--servers", "1"}} {
		name := filepath.Join(s.dir, fmt.Sprint("index", i))
		if out := ok(t, append([]string{"predict", "--model", s.model, "--data", s.data, "--emit", name, "--emit-id", "1", "--emit-fields", "1"}, flags...)...); out != "" {
			t.Errorf("it prints %.80q, but nobody asked for scores", out)
		}
		ids, vectors := npy(t, name+".ids.npy", "<u8", "(9002,)"), npy(t, name+".vectors.npy", "<f4", "(9002, 16)")
		all := append(ids, vectors...)
		if i == 0 {
			first = all
			s.naive(ids, vectors)
		} else if !bytes.Equal(all, first) {
			t.Errorf("%v: another index than one process's", flags)
		}
	}
}

// naive looks ids and vectors up in the text that an export has.
func (s *scoring) naive(ids, vectors []byte) {
	s.t.Helper()
	dir := filepath.Join(s.dir, "text")
	ok(s.t, "export", "--checkpoint", s.model, "--out", dir, "--format", "text")
	known := map[string][]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*.tsv"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			known[words[0]] = words[1:]
		}
	}
	if len(known) < 100 {
		s.t.Fatalf("%d rows in %v", len(known), files)
	}
	data, err := os.ReadFile(s.data)
	if err != nil {
		s.t.Fatal(err)
	}
	i := 0
	for line := range strings.Lines(string(data)) {
		id := strings.Split(strings.Fields(line)[2], ":")[1]
		if got := fmt.Sprint(binary.LittleEndian.Uint64(ids[8*i:])); got != id {
			s.t.Fatalf("row %d has id %s, want %s", i, got, id)
		}
		for k := range 16 {
			got, want := math.Float32frombits(binary.LittleEndian.Uint32(vectors[64*i+4*k:])), float32(0)
			if row := known[id]; row != nil {
				if _, err := fmt.Sscan(row[1+k], &want); err != nil {
					s.t.Fatal(err)
				}
			}
			if got != want {
				s.t.Fatalf("row %d, id %s: element %d is %v, the export has %v (%v)", i, id, k, got, want, known[id])
			}
		}
		i++
	}
}

// A worker that dies ends the job with its name, and leaves nothing.
func TestPredictWorkerDies(t *testing.T) {
	t.Parallel()
	s := newScoring(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := command(ctx, "predict", "--model", s.model, "--data", s.data, "--out", filepath.Join(s.dir, "out"), "--workers", "2", "--servers", "1",
		"--format", "libffm", "--pipe-command", `while cat "$PSRT_FILE"; do :; done`) // rows without end
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(s.dir, "out.rank-1.part")
	for ctx.Err() == nil { // it has begun
		if _, err := os.Stat(part); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for _, pid := range children(t, c.Process.Pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.Contains(line, []byte("--rank\x002\x00")) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := c.Wait(); err == nil || !strings.Contains(stderr.String(), "worker 1") {
		t.Errorf("%v, %s", err, stderr.String())
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "out*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A file of scores is there when it is whole: who is interrupted leaves what was there.
func TestPredictInterrupted(t *testing.T) {
	s := newScoring(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, index := write(t, s.dir, "out", "before"), filepath.Join(s.dir, "index")
	c := command(ctx, "predict", "--model", s.model, "--data", s.data, "--out", out, "--emit", index,
		"--format", "libffm", "--pipe-command", `while cat "$PSRT_FILE"; do :; done`)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(index + ".vectors.npy.tmp"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	if b, err := os.ReadFile(out); err != nil || string(b) != "before" {
		t.Errorf("%v, %.40q", err, b)
	}
	left, _ := filepath.Glob(filepath.Join(s.dir, "*.tmp"))
	if made, _ := filepath.Glob(index + "*"); len(left)+len(made) > 0 {
		t.Errorf("left %v, %v", left, made)
	}
}

func TestPredictRefuses(t *testing.T) {
	s := newScoring(t)
	serving := filepath.Join(s.dir, "serving")
	ok(t, "export", "--checkpoint", s.model, "--out", serving)
	for _, c := range []struct {
		want  string
		flags []string
	}{
		{"--out", []string{"--workers", "2"}},
		{"--out", []string{"--servers", "1"}},
		{"--token-file", []string{"--live", "127.0.0.1:1"}},
		{"--emit", []string{"--emit-id", "1"}},
		{"no such field", []string{"--emit", filepath.Join(s.dir, "e"), "--emit-fields", "0,9"}},
		{"no such field", []string{"--emit", filepath.Join(s.dir, "e"), "--emit-id", "nope", "--workers", "2"}},
		{"--json", []string{"--json"}},
		{"--servers", []string{"--out", filepath.Join(s.dir, "o"), "--live", "127.0.0.1:1", "--token-file", s.data, "--servers", "1"}},
		{"weights alone", []string{"--out", filepath.Join(s.dir, "o"), "--model", serving, "--servers", "1"}},
		{"is a directory", []string{"--out", s.dir, "--workers", "2"}},
		{"is a directory", []string{"--out", s.dir}},
		{"no-such-dir", []string{"--out", filepath.Join(s.dir, "no-such-dir", "o"), "--workers", "2"}},
	} {
		o := psrt(t, append([]string{"predict", "--model", s.model, "--data", s.data}, c.flags...)...)
		if o.code != 2 || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%v: exit %d, %q, want 2 and %q", c.flags, o.code, o.stderr, c.want)
		}
	}
}
