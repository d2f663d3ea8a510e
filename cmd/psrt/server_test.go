package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/job"
	"psrt/sched/launch"
)

// On a host of a job that psrt's launcher has not started its servers are found, added and
// removed without being told where it is.
func TestServersOfAJobOfThisHost(t *testing.T) {
	j := startByHand(t, "--replicas", "2", "--allow-same-host")
	j.hears("rank 2: epoch  1")
	t.Setenv("TMPDIR", filepath.Join(filepath.Dir(j.token), "tmp2"))
	eventually(t, "all there", func() bool {
		o := psrt(t, "server", "ls")
		return o.code == 0 && strings.Contains(o.stdout, "2 replica(s), all there") && strings.Count(o.stdout, " well") == 2
	})
	if o := psrt(t, "server", "remove", "1"); o.code != 2 || !strings.Contains(o.stderr, "there are 1 server(s)") || !strings.Contains(o.stderr, "--replicas 2") || !strings.Contains(o.stderr, "psrt server add") {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
	if o := psrt(t, "server", "ls", "--pid", fmt.Sprint(j.ranks[2].Process.Pid)); o.code != 0 {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}

// Where several jobs run all of them are named.
func TestJobsOfThisHostAreNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for range 2 {
		s, err := launch.OpenScratch(os.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		must(t, os.WriteFile(job.TokenOf(s.Path), []byte(strings.Repeat("secret", 8)), 0o600))
	}
	pid := fmt.Sprint(os.Getpid())
	if o := psrt(t, "server", "ls"); o.code != 2 || !strings.Contains(o.stderr, "2 jobs run on this machine: say which by --pid "+pid+", or --pid "+pid) {
		t.Errorf("exit %d: %s", o.code, o.stderr)
	}
}

// What can be no address is bad input wherever a coordinator is named.
func TestNoAddress(t *testing.T) {
	dir := t.TempDir()
	data, token := write(t, dir, "train.libffm", rows(10, 1)), write(t, dir, "token", strings.Repeat("secret", 8))
	tables := write(t, dir, "tables.yaml", serveTables)
	for _, addr := range []string{"127.0.0.1", "127.0.0.1:", ":99999", "127.0.0.1:x y", "127.0.0.1:0", "::1:7000", "tcp://127.0.0.1:7000", "unix:"} {
		for _, args := range [][]string{
			{"train", "--data", data, "--rank", "0", "--world-size", "2", "--servers", "1"},
			{"serve", "--tables", tables, "--servers", "2"},
			{"status"}, {"server", "ls"},
		} {
			o := psrt(t, append(args, "--coordinator", addr, "--token-file", token)...)
			if o.code != 2 || !strings.Contains(o.stderr, fmt.Sprintf("--coordinator: address %q", addr)) || !strings.Contains(o.stderr, "want HOST:PORT") {
				t.Errorf("%s: %v: exit %d: %s", addr, args, o.code, o.stderr)
			}
		}
	}
}
