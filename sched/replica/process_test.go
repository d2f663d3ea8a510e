package replica

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/rdma/dial"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/place"
	"psrt/sched/server"
)

// childSpec is what a child process is told.
type childSpec struct {
	ID    int
	Store string // unix socket
	First place.ChainsConfig
	Start int
}

// child is a server process, until it is killed.
func child(spec string) error {
	var s childSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		return err
	}
	c, err := remote.Dial(context.Background(), func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Store)
	})
	if err != nil {
		return err
	}
	host, err := dial.New(dial.Config{Transport: "tcp", Token: testToken})
	if err != nil {
		return err
	}
	open := opener(1, server.Async)
	m, err := New(Config{ID: s.ID, Host: host, Listen: "127.0.0.1:0", Coord: c, First: s.First, FirstServers: s.Start,
		Open: func(seat Seat) (Group, error) { return open(host, seat) }})
	if err != nil {
		return err
	}
	return m.Run(context.Background())
}

// spawn starts server id in a process of its own.
func (c *cluster) spawn(socket string, id int) *exec.Cmd {
	c.t.Helper()
	spec, err := json.Marshal(childSpec{ID: id, Store: socket, First: c.first, Start: c.start})
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// Server processes are killed and stopped by signals while a worker trains: every
// push counts once, a killed one is replaced by another process, and a stopped one
// comes back by itself. The log says how long each was not noticed, and how long
// nothing was acknowledged.
func TestProcessesKilledAndStopped(t *testing.T) {
	c := &cluster{t: t, store: local.New(), start: 3, first: place.ChainsConfig{Slots: 64, Groups: 6, Replicas: 2, AllowSameHost: true}, procs: map[int]*proc{}}
	t.Cleanup(func() { c.store.Close() })
	socket := filepath.Join(t.TempDir(), "store")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := remote.Serve(l, c.store)
	t.Cleanup(func() { srv.Close() })
	cmds := map[int]*exec.Cmd{}
	for id := range 3 {
		cmds[id] = c.spawn(socket, id)
	}
	wide := func() bool {
		m := c.chains()
		return m != nil && len(m.Servers) == 3 && !slices.ContainsFunc(m.Groups, func(g place.Group) bool { return len(g.Chain) < 2 || g.Joiner != nil })
	}
	c.until("all groups have two replicas", wide)
	w := c.trainer(0, seedtest.Seed(t))
	var rounds atomic.Uint64
	quit, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-quit:
				failed <- nil
				return
			default:
			}
			if err := w.rounds(1); err != nil {
				failed <- err
				return
			}
			rounds.Add(1)
		}
	}()
	more := func(n uint64) {
		t.Helper()
		from := rounds.Load()
		c.until(fmt.Sprintf("%d more rounds", n), func() bool { return rounds.Load() >= from+n })
	}
	more(10)
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGKILL}
	if testing.Short() {
		signals = signals[:2]
	}
	for i, sig := range signals {
		victim := i
		gen := c.chains().Node(victim)
		gap := watchGap(&rounds)
		began := time.Now()
		if err := cmds[victim].Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.until("it is out of the map", func() bool {
			m := c.chains()
			return m.Index(victim) < 0 || m.Node(victim) != gen
		})
		out := time.Since(began)
		more(10)
		t.Logf("%v of server %d: out of the map after %v, nothing acknowledged for %v", sig, victim, out.Round(time.Millisecond), gap().Round(time.Millisecond))
		if sig == syscall.SIGKILL {
			_ = cmds[victim].Wait()
			cmds[victim] = c.spawn(socket, victim)
		} else if err := cmds[victim].Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		c.until("all groups have two replicas again", wide)
		more(10)
	}
	close(quit)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	w.check(w)
}

// watchGap finds the longest time in which a count does not rise, until it is asked.
func watchGap(n *atomic.Uint64) (longest func() time.Duration) {
	quit, most := make(chan struct{}), make(chan time.Duration)
	go func() {
		var gap time.Duration
		last, at := n.Load(), time.Now()
		for t := time.NewTicker(time.Millisecond); ; {
			select {
			case <-quit:
				t.Stop()
				most <- gap
				return
			case <-t.C:
				if v := n.Load(); v != last {
					gap, last, at = max(gap, time.Since(at)), v, time.Now()
				}
			}
		}
	}()
	return func() time.Duration { close(quit); return <-most }
}
