package blk_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"psrt/rdma/invariant"
	"psrt/tiers/blk"
	"psrt/tiers/blk/blktest"
)

// Children of the tests are this binary with a task in the environment.
const taskEnv, dirEnv = "PSRT_BLK_TASK", "PSRT_BLK_DIR"

func TestMain(m *testing.M) {
	switch task := os.Getenv(taskEnv); task {
	case "":
		os.Exit(invariant.Main(m))
	case "hold":
		child(hold)
	case "cramped":
		child(cramped)
	case "forbidden":
		child(forbidden)
	default:
		fmt.Fprintf(os.Stderr, "no task %q\n", task)
		os.Exit(2)
	}
}

func child(task func(dir string) error) {
	if err := task(os.Getenv(dirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func command(t *testing.T, task, dir string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), taskEnv+"="+task, dirEnv+"="+dir)
	c.Stderr = os.Stderr
	return c
}

// hold has a device open until its input ends.
func hold(dir string) error {
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, d.Close())
}

// TestSecondIsRefused: one device for a directory, in this process or another,
// until its process ends, even by a kill.
func TestSecondIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, dir, os.Getpid())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	c := command(t, "hold", dir)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatalf("the child said %q: %v", line, err)
	}
	refused(t, dir, c.Process.Pid)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	_ = in.Close()
	if d, err = blk.Open(dir, blk.Config{}); err != nil {
		t.Fatalf("after the holder's death: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, dir string, pid int) {
	t.Helper()
	_, err := blk.Open(dir, blk.Config{})
	var locked *blk.LockedError
	if !errors.As(err, &locked) || locked.PID != pid || locked.Dir != dir {
		t.Fatalf("second Open: %v; want a LockedError of %s and process %d", err, dir, pid)
	}
	if !strings.Contains(err.Error(), fmt.Sprint(pid)) {
		t.Errorf("the message does not name process %d: %v", pid, err)
	}
}

// forbidden opens a device where a seccomp filter refuses io_uring_setup with
// EPERM, as containers do.
func forbidden(dir string) error {
	if err := forbidRings(); err != nil {
		return err
	}
	if _, err := blk.Open(dir, blk.Config{Engine: blk.EngineRing}); err == nil {
		return errors.New("io_uring works in spite of the filter")
	}
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		return err
	}
	fmt.Println(d)
	f, err := d.Create("a", 4096)
	if err != nil {
		return err
	}
	buf, err := d.Buffers(4096)
	if err != nil {
		return err
	}
	if _, err = d.Submit([]blk.Request{{Op: blk.Write, File: f, Buf: buf}}); err != nil {
		return err
	}
	return d.Close()
}

func TestForbiddenRing(t *testing.T) {
	out, err := command(t, "forbidden", t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	said := string(out)
	for _, want := range []string{"pread", "io_uring is not available", "operation not permitted", "seccomp profile"} {
		if !strings.Contains(said, want) {
			t.Errorf("the device says %q, and nothing of %q", said, want)
		}
	}
}

func TestDirectoryIsGone(t *testing.T) {
	for _, engine := range []string{"", blk.EnginePread} {
		t.Run("engine "+engine, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "gone")
			if _, err := blk.Open(dir, blk.Config{}); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("Open of no directory: %v", err)
			}
			if err := os.Mkdir(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			d, err := blk.Open(dir, blk.Config{Engine: engine})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			f := blktest.Create(t, d, "a", 4096)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Create("b", 4096); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), dir) {
				t.Errorf("Create: %v", err)
			}
			r := blktest.Do(t, d, blk.Request{Op: blk.Make, Name: "b", Len: 4096}, blk.Request{Op: blk.Sync, File: f})
			if !errors.Is(r[0].Err, os.ErrNotExist) {
				t.Errorf("Make: %v", r[0].Err)
			}
			if _, err := d.List(); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("List: %v", err)
			}
			if err := d.Rename("a", "c"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("Rename: %v", err)
			}
		})
	}
}

// TestNoRoom: a file that the file system cannot hold is refused, and leaves
// nothing behind.
func TestNoRoom(t *testing.T) {
	d, err := blk.Open(t.TempDir(), blk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, total, err := d.Space()
	if err != nil {
		t.Fatal(err)
	}
	size := (total*2 + 1<<20) &^ 4095
	if _, err = d.Create("a", size); !errors.Is(err, blk.ErrNoSpace) {
		t.Fatalf("Create of %d bytes on a file system of %d: %v", size, total, err)
	}
	if r := blktest.Do(t, d, blk.Request{Op: blk.Make, Name: "a", Len: size})[0]; !errors.Is(r.Err, blk.ErrNoSpace) {
		t.Errorf("Make: %v", r.Err)
	}
	if names, err := d.List(); err != nil || len(names) != 0 {
		t.Errorf("left behind: %q, %v", names, err)
	}
}
