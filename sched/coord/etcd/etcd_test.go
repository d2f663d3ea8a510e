package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/coordtest"
)

// TestMain is an etcd where PSRT_TEST_ETCD names its directory and address.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PSRT_TEST_ETCD"); dir != "" {
		_, err := Start(context.Background(), dir, os.Getenv("PSRT_TEST_ETCD_URL"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		select {}
	}
	os.Exit(m.Run())
}

// The suite of all coordinators, over one etcd: every test has a prefix of its own.
func TestConformance(t *testing.T) {
	t.Parallel()
	e, err := Start(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	var serial atomic.Int32
	coordtest.Run(t, func(t *testing.T) coordtest.Pair {
		prefix := fmt.Sprintf("/psrt/%d/", serial.Add(1))
		p := coordtest.Pair{A: e.Store(prefix), B: e.Store(prefix)}
		t.Cleanup(func() { p.A.Close(); p.B.Close() })
		return p
	})
}

// What only this user may reach is in the directory, and nothing else is opened.
func TestEmbeddedIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "own")
	e, err := Start(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"client", "peer"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode()&os.ModeSocket == 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
	s := e.Store("/j/")
	if _, err := s.Put(t.Context(), "k", []byte("stays"), 0); err != nil {
		t.Fatal(err)
	}
	s.Close()
	e.Close()
	again, err := Start(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	s = again.Store("/j/")
	defer s.Close()
	if kv, err := s.Get(t.Context(), "k"); err != nil || string(kv.Value) != "stays" {
		t.Errorf("%+v, %v", kv, err)
	}
}

// server is an etcd in a process of its own.
type server struct {
	dir, url string
	cmd      *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	// At an address of its own the port stays free between two lives.
	l, err := net.Listen("tcp", "127.0.0.87:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &server{dir: t.TempDir(), url: "http://" + l.Addr().String()}
	t.Cleanup(s.kill)
	return s
}

func (s *server) start(t *testing.T) {
	t.Helper()
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), "PSRT_TEST_ETCD="+s.dir, "PSRT_TEST_ETCD_URL="+s.url)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("etcd says %q, %v", line, err)
	}
}

func (s *server) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
		s.cmd = nil
	}
}

// An etcd that is killed and comes back with its data: calls fail meanwhile and
// work after, a watch goes on where it was, a lease lives.
func TestKilledAndBack(t *testing.T) {
	srv := newServer(t)
	srv.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Dial(ctx, Config{Endpoints: []string{srv.url}, Prefix: "/psrt/job/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.Watch(ctx, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	session, err := coord.NewSession(ctx, s, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := s.Put(ctx, "mine", nil, session.Lease()); err != nil {
		t.Fatal(err)
	}
	last := ""
	next := func(want string) {
		t.Helper()
		for { // a put whose answer was late is there twice
			e, ok := <-w.Events()
			if ok && string(e.Value) == last {
				continue
			}
			if last = want; !ok || string(e.Value) != want {
				t.Fatalf("event %q, %v, want %q", e.Value, w.Err(), want)
			}
			return
		}
	}
	put := func(value string) {
		t.Helper()
		for {
			short, end := context.WithTimeout(ctx, 5*time.Second)
			_, err := s.Put(short, "k", []byte(value), 0)
			end()
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	for _, value := range []string{"1", "2", "3"} {
		put(value)
		next(value)
		srv.kill()
		short, end := context.WithTimeout(ctx, 300*time.Millisecond)
		_, err := s.Put(short, "other", nil, 0)
		if err == nil || !errors.Is(err, coord.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a put without etcd: %v", err)
		}
		end()
		srv.start(t)
	}
	put("4")
	next("4")
	if err := s.KeepAlive(ctx, session.Lease()); err != nil {
		t.Errorf("the lease is gone: %v", err)
	}
	if kv, err := s.Get(ctx, "mine"); err != nil || kv.Lease != session.Lease() {
		t.Errorf("%+v, %v", kv, err)
	}
	if err := session.Err(); err != nil {
		t.Error(err)
	}
	other, err := Dial(ctx, Config{Endpoints: []string{srv.url}, Prefix: "/psrt/other/"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Put(ctx, "k", []byte("not this job's"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if kvs, _, err := s.List(ctx, ""); err != nil || len(kvs) != 0 {
		t.Errorf("left behind: %v, %v", kvs, err)
	}
	if kv, err := other.Get(ctx, "k"); err != nil || string(kv.Value) != "not this job's" {
		t.Errorf("another job's key: %+v, %v", kv, err)
	}
}

func TestNobodyThere(t *testing.T) {
	srv := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, Config{Endpoints: []string{srv.url}}); err == nil {
		t.Error("an etcd that is not there is reached")
	}
}
