package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/job"
	"psrt/sched/metrics"
)

// listeners are the TCP ports of 127.0.0.1, or of all addresses, at which a process listens.
func listeners(t *testing.T, pid int) (ports []int) {
	t.Helper()
	open := map[string]bool{}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			open[to] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" || !open["socket:["+f[9]+"]"] {
				continue
			}
			var port int
			if _, hex, ok := strings.Cut(f[1], ":"); ok {
				if _, err := fmt.Sscanf(hex, "%X", &port); err != nil {
					t.Fatal(err)
				}
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// record is what a member of a job says to its coordinator: a handshake, and a question.
func record(t *testing.T, coordinator string, token []byte) []byte {
	t.Helper()
	between, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer between.Close()
	var said bytes.Buffer
	over := make(chan error, 1)
	go func() {
		from, err := between.Accept()
		if err != nil {
			over <- err
			return
		}
		defer from.Close()
		to, err := net.Dial("tcp", coordinator)
		if err != nil {
			over <- err
			return
		}
		defer to.Close()
		go func() { _, _ = io.Copy(from, to) }() // until one of them is closed
		_, _ = io.Copy(to, io.TeeReader(from, &said))
		over <- nil
	}()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	k, err := job.Reach(ctx, between.Addr().String(), token, job.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.List(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(k.Close(), <-over); err != nil {
		t.Fatal(err)
	}
	return said.Bytes()
}

// Who does not hold the token gets nothing at any port of a job: not by garbage, nor by
// what a member has said before, nor with another token, nor by saying nothing; the ranks
// tell its address, and train on.
func TestStrangers(t *testing.T) {
	t.Parallel()
	j := startByHand(t, "--metrics", "127.0.0.1:0")
	j.hears("rank 2: epoch  1")
	token, err := os.ReadFile(j.token)
	if err != nil {
		t.Fatal(err)
	}
	recorded := record(t, j.coordinator, token)
	if len(recorded) < 200 {
		t.Fatalf("a handshake of %d bytes", len(recorded))
	}
	garbage := bytes.Repeat([]byte("\xff\x00\x16\x03garbage"), 100)
	var all sync.WaitGroup
	for rank, c := range j.ranks {
		ports := listeners(t, c.Process.Pid)
		if want := map[bool]int{true: 4, false: 2}[rank < 2]; len(ports) < want { // status, metrics; a server also control and data
			t.Errorf("rank %d listens at %d ports, want %d", rank, len(ports), want)
		}
		for _, port := range ports {
			at := fmt.Sprintf("127.0.0.1:%d", port)
			for range 5 { // who says nothing, until the end of the test
				c, err := net.Dial("tcp", at)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
			}
			for _, words := range [][]byte{garbage, recorded} {
				all.Go(func() {
					if got := says(t, at, words); bytes.Contains(got, []byte("psrt")) {
						t.Errorf("rank %d answers %d bytes to a stranger at %s: %q", rank, len(got), at, got)
					}
				})
			}
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				if c, err := secure.Dial(ctx, "tcp", at, []byte(strings.Repeat("another", 8))); err == nil {
					_ = c.Close()
					t.Errorf("rank %d lets another token in at %s", rank, at)
				}
			})
		}
	}
	all.Wait()
	missing := []string{"the coordinator", "rank 0: server 0", "rank 1: server 1", "rank 2: worker 0", "rank 3: worker 1"}
	told := time.After(5 * time.Minute)
	for len(missing) > 0 { // in any order
		line, ok := "", false
		select {
		case line, ok = <-j.lines:
		case <-told:
		}
		if !ok {
			t.Fatalf("%q have told of no stranger", missing)
		}
		missing = slices.DeleteFunc(missing, func(who string) bool {
			return strings.Contains(strings.Replace(line, "warning: ", "", 1), who+" has refused 127.0.0.1:")
		})
	}
	// They train on. A look may miss a rank that is short of cores.
	var before, now metrics.Status
	var o outcome
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		if now, o = j.status("TMPDIR="+t.TempDir(), "--coordinator", j.coordinator, "--token-file", j.token); o.code != 0 || now.Missing > 0 || len(now.Workers) != 2 {
			continue
		}
		if before.Workers == nil {
			before = now
		}
		if now.Workers[0].Steps > before.Workers[0].Steps && now.Workers[1].Steps > before.Workers[1].Steps {
			return
		}
	}
	t.Errorf("exit %d, %+v: %s", o.code, now, o.stderr)
}

// says tells a listener something and gives what it says until it hangs up.
func says(t *testing.T, at string, words []byte) []byte {
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer c.Close()
	_, _ = c.Write(words) // it may have hung up already
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Error(err)
	}
	got, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s keeps a stranger for %v", at, limit)
	}
	return got
}
