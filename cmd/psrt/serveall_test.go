package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"psrt/sched/kv"
)

// pushSum adds 1 and 2 to the rows of some keys, which are at all servers.
func pushSum(t *testing.T, address, token string) {
	t.Helper()
	c := connect(t, kv.Config{Servers: []string{address}, TokenFile: token})
	keys, values := make([]uint64, 100), make([]float32, 200)
	for i := range keys {
		keys[i], values[2*i], values[2*i+1] = uint64(i)*7, 1, 2
	}
	if err := openTable(t, c, "sum").Push(keys, values, kv.Options{}); err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// showsServers waits until psrt status shows so many servers of a job.
func showsServers(t *testing.T, pid, servers int) {
	t.Helper()
	eventually(t, fmt.Sprintf("psrt status shows %d servers", servers), func() bool {
		r := psrt(t, "status", "--json", "--pid", strconv.Itoa(pid), "--interval", "100ms")
		var s struct{ Servers []json.RawMessage }
		if r.code != 0 || json.NewDecoder(bytes.NewReader([]byte(r.stdout))).Decode(&s) != nil {
			t.Fatalf("psrt status: %d, %s, %s", r.code, r.stdout, r.stderr)
		}
		return len(s.Servers) == servers
	})
}

// TestServeAll: two processes, one line, one model; psrt status finds them, and
// nothing is left. One server goes on with what two have saved.
func TestServeAll(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	tables, token, model := write(t, dir, "tables.yaml", serveTables), filepath.Join(dir, "token"), filepath.Join(dir, "model")
	args := []string{"--tables", tables, "--token-file", token, "--threads", "1", "--listen", "127.0.0.1:0", "--load", model, "--save", model, "--transport", "tcp"}
	for round, servers := range []int{2, 1} {
		s := serveProcess(t, append(args, "--servers", strconv.Itoa(servers), "--metrics", "127.0.0.1:0", "--mem-budget", "64MiB")...)
		addresses := append([]string{s.ready.Address}, s.ready.Addresses...)
		if len(addresses) != []int{0, 2, 3}[servers] && servers > 1 {
			t.Errorf("%d servers have the addresses %v", servers, s.ready.Addresses)
		}
		pushSum(t, addresses[len(addresses)-1], token)
		c := connect(t, kv.Config{Servers: addresses[:1], TokenFile: token})
		if got := pullSum(t, openTable(t, c, "sum")); got != float32(round+1) {
			t.Errorf("the sum is %v after %d pushes", got, round+1)
		}
		c.Close()
		showsServers(t, s.ready.PID, servers)
		if servers > 1 && !strings.Contains(scrape(t, s.ready.Metrics), "psrt_") {
			t.Error("no metrics of several servers")
		}
		if _, code := s.end(syscall.SIGTERM); code != 0 {
			t.Errorf("%d servers ended with %d: %s", servers, code, s.stderr)
		}
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// A model that cannot be written is an error, whichever process noticed.
func TestServeAllTellsOfFailures(t *testing.T) {
	dir := t.TempDir()
	tables, token := write(t, dir, "tables.yaml", serveTables), filepath.Join(dir, "token")
	there := filepath.Join(dir, "models")
	must(t, os.Mkdir(there, 0o755))
	s := serveProcess(t, "--tables", tables, "--token-file", token, "--threads", "1", "--listen", "127.0.0.1:0", "--servers", "2", "--save", filepath.Join(there, "model"))
	must(t, os.Remove(there)) // after the start, which would have refused it
	write(t, dir, "models", "no directory")
	if _, code := s.end(syscall.SIGTERM); code != 1 || !strings.Contains(s.stderr.String(), there) {
		t.Errorf("it ended with %d: %s", code, s.stderr)
	}
}

// TestServeOneByOne: servers that were started by hand, which meet at rank 0's
// address.
func TestServeOneByOne(t *testing.T) {
	dir := t.TempDir()
	tables, token := write(t, dir, "tables.yaml", serveTables), write(t, dir, "token", "a token that all of them know")
	args := []string{"--tables", tables, "--token-file", token, "--threads", "1", "--servers", "2", "--coordinator", freeAddr(t), "--listen", "127.0.0.1:0"}
	second := make(chan *served, 1)
	go func() { second <- serveProcess(t, append(args, "--rank", "1")...) }()
	first := serveProcess(t, args...)
	other := <-second
	pushSum(t, other.ready.Address, token)
	c := connect(t, kv.Config{Coordinator: args[9], TokenFile: token})
	if got := pullSum(t, openTable(t, c, "sum")); got != 1 {
		t.Errorf("the sum is %v", got)
	}
	c.Close()
	for _, s := range []*served{other, first} {
		if _, code := s.end(syscall.SIGTERM); code != 0 {
			t.Errorf("ended with %d: %s", code, s.stderr)
		}
	}
	for _, bad := range [][]string{{"--rank", "2"}, {"--servers", "0"}, {"--rank", "1", "--save", dir}} {
		if r := psrt(t, append(append([]string{"serve"}, args...), bad...)...); r.code != 2 {
			t.Errorf("%v: exit code %d, %s", bad, r.code, r.stderr)
		}
	}
}
