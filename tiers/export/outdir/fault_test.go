package outdir

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"psrt/csrc/seedtest"
)

// faulty fails its nth operation, counted from 0, or ends the process there.
type faulty struct {
	quick
	n     int64
	calls atomic.Int64
	err   error // nil: kill -9
}

func (d *faulty) do(op func() error) error {
	if d.calls.Add(1)-1 == d.n {
		if d.err == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return &os.PathError{Op: "test", Err: d.err}
	}
	return op()
}
func (d *faulty) mkdirAll(p string) error { return d.do(func() error { return d.quick.mkdirAll(p) }) }
func (d *faulty) mkdir(p string) error    { return d.do(func() error { return d.quick.mkdir(p) }) }
func (d *faulty) syncDir(p string) error  { return d.do(func() error { return d.quick.syncDir(p) }) }
func (d *faulty) removeAll(p string) error {
	return d.do(func() error { return d.quick.removeAll(p) })
}
func (d *faulty) replace(from, to string) error {
	return d.do(func() error { return d.quick.replace(from, to) })
}
func (d *faulty) create(p string) (f file, err error) {
	err = d.do(func() error { f, err = d.quick.create(p); return err })
	return &faultyFile{f, d}, err
}

// quick is a file system that does not wait for its disk.
type quick struct{ osDisk }

func (quick) syncDir(string) error { return nil }
func (quick) create(p string) (file, error) {
	f, err := osDisk{}.create(p)
	return quickFile{f}, err
}

type quickFile struct{ file }

func (quickFile) Sync() error { return nil }

type faultyFile struct {
	file
	d *faulty
}

func (f *faultyFile) Write(b []byte) (n int, err error) {
	err = f.d.do(func() error { n, err = f.file.Write(b); return err })
	if err != nil {
		n, _ = f.file.Write(b[:len(b)/2]) // a short write
	}
	return n, err
}
func (f *faultyFile) Sync() error { return f.d.do(f.file.Sync) }

// TestEveryFailureKeepsTheOld makes each operation of an export fail in turn.
func TestEveryFailureKeepsTheOld(t *testing.T) {
	for _, c := range []struct {
		err    error
		remedy string
	}{{syscall.ENOSPC, "free space"}, {syscall.EIO, ""}, {syscall.EROFS, "may write to"}, {syscall.EINVAL, "choose a new one"}} {
		dir := filepath.Join(t.TempDir(), "out")
		check(t, save(quick{}, dir, 1))
		failed := 0
		for n := int64(0); ; n++ {
			d := &faulty{n: n, err: c.err}
			err := save(d, dir, 2)
			if d.calls.Load() <= n { // nothing was left to fail
				check(t, err)
				break
			}
			failed++
			v, e := version(dir)
			check(t, e)
			switch {
			case err == nil && v == 2: // removing the old one failed: it is for the next to do
			case err == nil:
				t.Fatalf("%v at operation %d went unnoticed", c.err, n)
			case v == 2 && !strings.Contains(err.Error(), "syncing "): // the parent, after the switch
				t.Errorf("%v at operation %d replaced the export and failed: %v", c.err, n, err)
			case !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.remedy):
				t.Errorf("%v at operation %d: %v", c.err, n, err)
			}
			check(t, save(quick{}, dir, 1)) // the next one works, and cleans up
			if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
				t.Errorf("%v at operation %d left %v", c.err, n, got)
			}
		}
		if failed < 15 {
			t.Errorf("only %d operations could fail", failed)
		}
	}
}

// TestKillAtEveryPoint ends an exporting process before each of its operations.
func TestKillAtEveryPoint(t *testing.T) {
	if at := os.Getenv("PSRT_TEST_KILL_AT"); at != "" {
		n, err := strconv.ParseInt(at, 10, 64)
		check(t, err)
		check(t, save(&faulty{n: n}, os.Getenv("PSRT_TEST_DIR"), 2))
		return
	}
	dir := filepath.Join(t.TempDir(), "out")
	check(t, save(quick{}, dir, 1))
	kills, switched := 0, false
	for n := 0; ; n++ {
		c := exec.Command(os.Args[0], "-test.run=^TestKillAtEveryPoint$")
		c.Env = append(os.Environ(), "PSRT_TEST_KILL_AT="+strconv.Itoa(n), "PSRT_TEST_DIR="+dir)
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if status, ok := syscall.WaitStatus(0), errors.As(err, &exit); ok {
			status, _ = exit.Sys().(syscall.WaitStatus)
			if status.Signal() != syscall.SIGKILL {
				t.Fatalf("kill point %d: %v\n%s", n, err, out)
			}
		}
		kills++
		v, err := version(dir)
		if err != nil || v != 1 && v != 2 || switched && v == 1 {
			t.Fatalf("killed before operation %d: version %d, %v", n, v, err)
		}
		// Later points find the directory as this one left it: a crash upon a crash.
		if switched = v == 2; switched {
			check(t, save(quick{}, dir, 1))
			switched = false
		}
	}
	if kills < 15 {
		t.Errorf("only %d points", kills)
	}
	if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
		t.Errorf("left are %v", got)
	}
}

// TestKillsAtRandom kills an exporter again and again, wherever it is: for the
// places between the numbered points.
func TestKillsAtRandom(t *testing.T) {
	if dir := os.Getenv("PSRT_TEST_FOREVER"); dir != "" {
		for v := 2; ; v++ {
			check(t, save(quick{}, dir, v))
			_, _ = os.Stdout.WriteString("x\n") // a sign of life
		}
	}
	rng := seedtest.Rand(t)
	kills := 5
	if s := os.Getenv("PSRT_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		check(t, err)
		kills = n
	}
	dir := filepath.Join(t.TempDir(), "out")
	check(t, save(quick{}, dir, 1))
	for range kills {
		c := exec.Command(os.Args[0], "-test.run=^TestKillsAtRandom$")
		c.Env = append(os.Environ(), "PSRT_TEST_FOREVER="+dir)
		signs, err := c.StdoutPipe()
		check(t, err)
		check(t, c.Start())
		_, err = signs.Read(make([]byte, 1)) // one export is done
		check(t, err)
		for range rng.IntN(40) { // then somewhere in a later one
			_, _ = version(dir) // takes time; may fail when it is replaced meanwhile
		}
		check(t, c.Process.Kill())
		_ = c.Wait()
		if _, err := version(dir); err != nil {
			t.Fatal(err)
		}
	}
	check(t, save(quick{}, dir, 1))
	if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
		t.Errorf("left are %v", got)
	}
}
