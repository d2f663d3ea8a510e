package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/train"
)

// together starts one rank for each list of flags and waits for all.
func together(t *testing.T, dir string, ranks ...[]string) []outcome {
	t.Helper()
	return commandTogether(t, dir, "train", ranks...)
}

// commandTogether is that of any command with ranks.
func commandTogether(t *testing.T, dir, command string, ranks ...[]string) []outcome {
	t.Helper()
	token := write(t, dir, "token", strings.Repeat("secret", 8))
	addr := freeAddr(t)
	out := make([]outcome, len(ranks))
	var wg sync.WaitGroup
	for r, flags := range ranks {
		args := append([]string{command, "--rank", fmt.Sprint(r), "--world-size", fmt.Sprint(len(ranks)), "--coordinator", addr, "--token-file", token, "--join-timeout", "2m"}, flags...)
		wg.Go(func() { out[r] = psrt(t, args...) })
	}
	wg.Wait()
	return out
}

// A flag that nobody would read is refused by the rank that was given it, or
// that should have been, and the job ends.
func TestFlagsOfRanksByHand(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "train.libffm", rows(1000, 1))
	job := []string{"--data", data, "--servers", "1", "--workers", "2", "--epochs", "2"}
	with := func(more ...string) []string { return append(job[:len(job):len(job)], more...) }
	for _, c := range []struct {
		name  string
		ranks [3][]string
		bad   int // the rank that says it
		want  string
	}{
		{"another number of epochs", [3][]string{job, {"--epochs", "3"}, nil}, 1, "--epochs 3 at rank 1"},
		{"another model", [3][]string{job, nil, {"--model", "lr"}}, 2, "--model lr at rank 2"},
		{"out elsewhere", [3][]string{job, nil, {"--out", filepath.Join(dir, "no")}}, 2, "give it to rank 0"},
		{"json at rank 0 alone", [3][]string{with("--json"), nil, nil}, 1, "give --json to this rank, 1"},
		{"report at rank 0 alone", [3][]string{with("--report", filepath.Join(dir, "r.html")), job, job}, 1, "give --report to this rank, 1"},
		{"json at another worker", [3][]string{job, nil, {"--json"}}, 2, "give --json to rank 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := together(t, t.TempDir(), c.ranks[:]...)
			for r, o := range out {
				if o.code == 0 || o.took > 90*time.Second || o.stdout != "" || r == c.bad && (o.code != 2 || !strings.Contains(o.stderr, c.want)) {
					t.Errorf("rank %d: exit %d after %v, stdout %q, want %q in: %s", r, o.code, o.took, o.stdout, c.want, o.stderr)
				}
			}
		})
	}
}

// The first worker writes all that tells of the result, and knows of the job
// what rank 0 was told.
func TestResultIsWithTheFirstWorker(t *testing.T) {
	dir := t.TempDir()
	data, model, report := write(t, dir, "train.libffm", rows(1000, 1)), filepath.Join(dir, "model"), filepath.Join(dir, "r.html")
	out := together(t, dir, []string{"--data", data, "--out", model}, []string{"--report", report})
	if out[0].code != 0 || out[1].code != 0 || out[0].stdout != "" || !strings.Contains(out[1].stdout, "model        "+model) {
		t.Errorf("%+v", out)
	}
	if b, err := os.ReadFile(report); err != nil || !strings.Contains(string(b), data) {
		t.Errorf("the report does not know the job: %v", err)
	}
	file := filepath.Join(dir, "r.json")
	both := []string{"--data", data, "--json", file}
	out = together(t, dir, both, both)
	var res train.Result
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &res) != nil || res.Digest == "" || out[0].code != 0 || out[1].code != 0 {
		t.Errorf("%v %+v", err, out)
	}
}
