package ckpt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"psrt/tiers/ckpt/files"
)

const (
	// killsEnv is how many times a writer is killed; make full asks for hundreds.
	killsEnv = "PSRT_KILLS"
	// childEnv makes this program a child: "write DIR SEED POINT" runs a script
	// and is killed at an operation, "hold DIR" holds a history's lock.
	childEnv = "PSRT_CKPT_CHILD"
)

func TestMain(m *testing.M) {
	if job := strings.Fields(os.Getenv(childEnv)); len(job) > 0 {
		if err := child(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(job []string) error {
	if job[0] == "hold" {
		h, err := OpenHistory(background, job[1], HistoryOptions{})
		if err != nil {
			return err
		}
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is done
		return h.Close()
	}
	seed, err := strconv.ParseUint(job[2], 10, 64)
	if err != nil {
		return err
	}
	point, err := strconv.ParseInt(job[3], 10, 64)
	if err != nil {
		return err
	}
	d := &deadly{point: point}
	err = script(newTwin(seed), files.OnDisk(job[1], d), func(number uint64) { fmt.Println(number) })
	return errors.Join(err, fmt.Errorf("the script ended after %d operations, before the kill at %d", d.n.Load(), point))
}

// deadly kills its process at an operation: before it, or in the middle of a
// write. Nothing is synced: the system lives on.
type deadly struct {
	quick
	point int64
	n     atomic.Int64
}

func (d *deadly) step(half func()) {
	if d.n.Add(1) != d.point+1 {
		return
	}
	half()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // it is on its way
}

func (d *deadly) at() { d.step(func() {}) }

func (d *deadly) MkdirAll(dir string) error { d.at(); return d.quick.MkdirAll(dir) }
func (d *deadly) Rename(from, to string, replace bool) error {
	d.at()
	return d.quick.Rename(from, to, replace)
}
func (d *deadly) SyncDir(dir string) error    { d.at(); return d.quick.SyncDir(dir) }
func (d *deadly) RemoveAll(path string) error { d.at(); return d.quick.RemoveAll(path) }
func (d *deadly) Create(path string) (files.DiskFile, error) {
	d.at()
	f, err := d.quick.Create(path)
	return &deadlyFile{f, d}, err
}

type deadlyFile struct {
	files.DiskFile
	d *deadly
}

func (f *deadlyFile) Write(b []byte) (int, error) {
	f.d.step(func() { _, _ = f.DiskFile.Write(b[:len(b)/2]) })
	return f.DiskFile.Write(b)
}
func (f *deadlyFile) Sync() error  { f.d.at(); return f.DiskFile.Sync() }
func (f *deadlyFile) Close() error { f.d.at(); return f.DiskFile.Close() }

// childOf starts this program as a child.
func childOf(t *testing.T, job ...any) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), childEnv+"="+strings.TrimSuffix(fmt.Sprintln(job...), "\n"))
	return c
}

// TestKills ends a writer by kill -9 at numbered operations: of parts, commits,
// HEAD, retiring and merging.
func TestKills(t *testing.T) {
	kills := 24 // all but the last at fixed points
	if s := os.Getenv(killsEnv); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("%s %q: %v", killsEnv, s, err)
		}
	}
	if testing.Short() {
		kills = 8
	}
	const fixed = 20260601
	counted := &deadly{point: -1}
	dir := t.TempDir()
	check(t, script(newTwin(fixed), files.OnDisk(dir, counted), func(uint64) {}))
	// The number differs by a few from run to run: lanes write side by side.
	points := counted.n.Load() - 10
	fresh := seed(t)
	rng, want := rand.New(rand.NewPCG(fixed, 1)), states(t, fixed)
	for i := range kills {
		s := uint64(fixed)
		point := (int64(i)*points + rng.Int64N(points)) / int64(kills)
		if i == kills-1 {
			s, want = fresh, states(t, fresh)
			point = rand.New(rand.NewPCG(fresh, 2)).Int64N(100)
		}
		killOnce(t, s, point, want)
	}
	t.Logf("%d kills among %d operations", kills, points)
}

func killOnce(t *testing.T, seed uint64, point int64, want []*twin) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "history")
	c := childOf(t, "write", dir, seed, point)
	out, err := c.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("seed %d, operation %d: the writer was not killed: %v %s", seed, point, err, exit.Stderr)
	}
	acked := uint64(0)
	for _, line := range strings.Fields(string(out)) {
		acked, err = strconv.ParseUint(line, 10, 64)
		check(t, err)
	}
	if err := recovered(files.NewDir(dir), want, acked); err != nil {
		t.Fatalf("seed %d, killed at operation %d after generation %d: %v", seed, point, acked, err)
	}
}

// TestAnotherProcessHolds names the process that writes.
func TestAnotherProcessHolds(t *testing.T) {
	dir := t.TempDir()
	c := childOf(t, "hold", dir)
	in, err := c.StdinPipe()
	check(t, err)
	out, err := c.StdoutPipe()
	check(t, err)
	check(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "held\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	_, err = OpenHistory(background, dir, HistoryOptions{})
	var held *LockedError
	if !errors.As(err, &held) || held.PID != c.Process.Pid || !strings.Contains(err.Error(), "process "+strconv.Itoa(held.PID)) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second process: %v, want one that names %d", err, c.Process.Pid)
	}
	check(t, in.Close())
	check(t, c.Wait())
	h, err := OpenHistory(background, dir, HistoryOptions{})
	check(t, err)
	check(t, h.Close())
}
