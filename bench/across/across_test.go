package across

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"psrt/bench/child"
	"psrt/sched/client"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// config is a suite's: the child fails if told to.
type config struct{ Fail string }

var spec = table.Spec{Name: "t", ID: 1, Dim: 2, Init: table.Init{Kind: table.InitZero}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}

// The test binary is the child when this is set.
func TestMain(m *testing.M) {
	if os.Getenv("PSRT_TEST_SERVE") == "" {
		os.Exit(m.Run())
	}
	var c config
	err := Serve(os.Stdin, os.Stdout, &c, func(s *Serving) (any, error) {
		if c.Fail != "" {
			return nil, errors.New(c.Fail)
		}
		h, err := s.Host()
		if err != nil {
			return nil, err
		}
		return s.Server(h, server.Config{Workers: 1, Staleness: server.Async, Tables: []table.Spec{spec}})
	})
	if err != nil {
		os.Stderr.WriteString(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

var again = child.Command{Path: os.Args[0], Env: []string{"PSRT_TEST_SERVE=1"}}

// TestPushAndPull: a client reaches the server in the other process, which ends
// with its Side.
func TestPushAndPull(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		var addr string
		s, err := Open(t.Context(), again, transport, config{}, &addr)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Connect(t.Context(), addr, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.NewRows(spec)
		if err != nil {
			t.Fatal(err)
		}
		var call client.Call
		for range 2 {
			err = errors.Join(err, r.Plan([][]uint64{{7}}, [][]int32{{0}}), c.Pull(r, 0, client.AnyClock, &call), c.Wait(&call))
			got := r.Values()[1]
			r.Grads()[1] = -1
			err = errors.Join(err, c.Push(r, 0, false, &call), c.Wait(&call))
			if err != nil || got != 0 && got != 1 {
				t.Fatalf("over %s: pulled %v, %v", transport, got, err)
			}
		}
		if v := r.Values()[1]; v != 1 {
			t.Errorf("over %s: the second pull gave %v, want what the first push made it", transport, v)
		}
		if c.Transport(0) != transport {
			t.Errorf("went by %s, want %s", c.Transport(0), transport)
		}
		if cpu, err := s.CPUSeconds(); err != nil || cpu <= 0 {
			t.Errorf("%v CPU seconds, %v", cpu, err)
		}
		pid := s.Child.PID()
		r.Close()
		c.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d lives", pid)
		}
	}
}

// TestChildFails: what the child says of its failure is the parent's error.
func TestChildFails(t *testing.T) {
	_, err := Open(t.Context(), again, "tcp", config{Fail: "no memory for that"}, new(string))
	if err == nil || !strings.Contains(err.Error(), "no memory for that") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(t.Context(), again, "pigeon", config{}, new(string)); err == nil || !strings.Contains(err.Error(), "pigeon") {
		t.Errorf("error %v of a transport that there is none of", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Open(ctx, again, "tcp", 5, new(string)); err == nil || !strings.Contains(err.Error(), "not understood") {
		t.Errorf("error %v of a configuration of another kind", err)
	}
}

// TestServeWithoutParent: a child whose parent says nothing ends, and says so.
func TestServeWithoutParent(t *testing.T) {
	err := Serve(strings.NewReader(""), io.Discard, &config{}, func(*Serving) (any, error) { return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "standard input") {
		t.Errorf("error %v", err)
	}
}
