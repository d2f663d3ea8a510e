package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/csrc/seedtest"
	"psrt/sched/train"
)

// wideJob is a job whose table is several times its memory, and its result with all
// of it in memory.
type wideJob struct {
	args []string
	want train.Result
}

func newWideJob(t *testing.T) *wideJob {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 5))
	var b strings.Builder
	for range 14000 {
		fmt.Fprintf(&b, "%d 0:%d:1 1:%d:1 2:%d:1\n", rng.IntN(2), rng.Uint64N(1<<40), rng.Uint64N(1<<14), rng.Uint64N(20))
	}
	data := write(t, t.TempDir(), "wide.libffm", b.String())
	j := &wideJob{args: []string{"train", "--data", data, "--model", "fm", "--dim", "64", "--batch", "100", "--epochs", "2", "--sync", "bsp", "--dataset", "queue",
		"--workers", "1", "--threads", "1", "--lanes", "1", "--json"}}
	o := psrt(t, j.args...)
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	j.want = j.result(t, o.stdout)
	return j
}

func (j *wideJob) result(t *testing.T, out string) (res train.Result) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return res
}

func (j *wideJob) onDisk(more ...string) []string {
	return append(append(j.args[:len(j.args):len(j.args)], "--mem-budget", "10MiB"), more...)
}

// ends runs the rest of a job, or all of it, and compares its end.
func (j *wideJob) ends(t *testing.T, more ...string) {
	t.Helper()
	o := psrt(t, j.onDisk(more...)...)
	if o.code != 0 {
		t.Fatalf("exit %d: %s", o.code, o.stderr)
	}
	if res := j.result(t, o.stdout); res.Digest != j.want.Digest {
		t.Errorf("digest %s, want %s", res.Digest, j.want.Digest)
	}
}

// begin starts a job that is not waited for.
func (j *wideJob) begin(t *testing.T, more ...string) (c *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	c = command(t.Context(), j.onDisk(more...)...)
	c.Env = append(c.Env, "TMPDIR="+t.TempDir())
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	c.Stdout, c.Stderr = out, errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, out, errs
}

// awaitFile waits for a file of a job.
func awaitFile(t *testing.T, pattern string) string {
	t.Helper()
	for end := time.Now().Add(faultLimit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	t.Fatalf("%s does not come", pattern)
	return ""
}

// TestFullDisk: a job whose disk is full ends with an error that says so, and goes
// on from its checkpoint with more room.
func TestFullDisk(t *testing.T) {
	j := newWideJob(t)
	small, history := t.TempDir(), filepath.Join(t.TempDir(), "history")
	limits := map[string][]string{"limit": {"--ssd", t.TempDir(), "--ssd-limit", "10MiB"}}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=12m"); err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		limits["disk"] = []string{"--ssd", small}
	} else {
		t.Logf("only by --ssd-limit: no file system can be mounted here (%v)", err)
	}
	for name, flags := range limits {
		t.Run(name, func(t *testing.T) {
			history := history + name
			save := []string{"--checkpoint", history, "--checkpoint-every", "20steps"}
			o := psrt(t, j.onDisk(append(flags, save...)...)...)
			if o.code != 1 || !strings.Contains(o.stderr, "the store is full") || !strings.Contains(o.stderr, "is safe") || strings.Contains(o.stderr, "raise --mem-budget") {
				t.Fatalf("exit %d: %s", o.code, o.stderr)
			}
			if name == "disk" && !(strings.Contains(o.stderr, "no space left on device") && strings.Contains(o.stderr, small)) {
				t.Errorf("the disk is not named: %s", o.stderr)
			}
			awaitFile(t, filepath.Join(history, "MANIFEST-*"))
			j.ends(t, append(save, "--resume", "--ssd", t.TempDir())...)
		})
	}
}

// TestDirectories: of two jobs at the same directories the second is refused; so is
// a directory that is none. One that is missing is made.
func TestDirectories(t *testing.T) {
	j := newWideJob(t)
	dir := filepath.Join(t.TempDir(), "made")
	first, _, errs := j.begin(t, "--ssd", dir, "--epochs", "1000")
	awaitFile(t, filepath.Join(dir, "psrt-server0-lane0", "store"))
	o := psrt(t, j.onDisk("--ssd", dir)...)
	if o.code != 2 || !strings.Contains(o.stderr, "is in use by process ") {
		t.Errorf("a second job: exit %d: %s", o.code, o.stderr)
	}
	if err := first.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "interrupt") {
		t.Errorf("the first job: exit %d: %s", code, errs)
	}
	for _, c := range []struct{ path, want string }{
		{write(t, dir, "file", ""), "is a file"},
		{filepath.Join(dir, "no", "such"), "is the device mounted?"},
	} {
		if o := psrt(t, j.onDisk("--ssd", c.path)...); o.code != 2 || !strings.Contains(o.stderr, c.want) {
			t.Errorf("--ssd %s: exit %d: %s", c.path, o.code, o.stderr)
		}
	}
	taken := t.TempDir()
	write(t, taken, "psrt-server0-lane0", "somebody's file")
	if o := psrt(t, j.onDisk("--ssd", taken)...); o.code != 2 || !strings.Contains(o.stderr, "not a directory") {
		t.Errorf("a file in the way: exit %d: %s", o.code, o.stderr)
	}
}

// TestDirectoryGone: a directory removed under a running job costs the job, at most:
// it ends as if nothing had been, or with an error that names the directory, and goes
// on from its checkpoint.
func TestDirectoryGone(t *testing.T) {
	j := newWideJob(t)
	dir, history := t.TempDir(), filepath.Join(t.TempDir(), "history")
	save := []string{"--checkpoint", history, "--checkpoint-every", "20steps"}
	c, out, errs := j.begin(t, append(save, "--ssd", dir)...)
	awaitFile(t, filepath.Join(history, "MANIFEST-*"))
	// The server may make another file meanwhile.
	eventually(t, "the directory is removed", func() bool { return os.RemoveAll(filepath.Join(dir, "psrt-server0-lane0")) == nil })
	_ = c.Wait()
	switch code := c.ProcessState.ExitCode(); {
	case code == 0:
		if res := j.result(t, out.String()); res.Digest != j.want.Digest {
			t.Errorf("digest %s, want %s", res.Digest, j.want.Digest)
		}
	case code != 1 || !strings.Contains(errs.String(), "psrt-server0-lane0"):
		t.Errorf("exit %d: %s", code, errs)
	}
	j.ends(t, append(save, "--resume", "--ssd", t.TempDir())...)
}

// TestServerPaused: a server that stands still for a moment, again and again, in the
// middle of cuts too, changes nothing.
func TestServerPaused(t *testing.T) {
	j := newWideJob(t)
	rng := seedtest.Rand(t)
	pauses := 0
	for try := 0; pauses == 0; try++ { // one that is over before the moment comes shows nothing
		if try == 5 {
			t.Fatal("five jobs have ended before a server was paused: give them more rows")
		}
		history := filepath.Join(t.TempDir(), "history")
		c, out, errs := j.begin(t, "--ssd", t.TempDir(), "--checkpoint", history, "--checkpoint-every", "5steps")
		ended := make(chan struct{})
		go func() { // how often depends on the machine, the end does not
			defer close(ended)
			_ = c.Wait()
		}()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			case <-time.After(time.Duration(20+rng.IntN(150)) * time.Millisecond):
				if server := ranksUnder(c.Process.Pid)[0]; server != 0 && unix.Kill(server, unix.SIGSTOP) == nil {
					time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
					_ = unix.Kill(server, unix.SIGCONT) // it may have ended
					pauses++
				}
			}
		}
		if code := c.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		if res := j.result(t, out.String()); res.Digest != j.want.Digest || res.Checkpoints == nil || res.Checkpoints.Failed > 0 {
			t.Errorf("after %d pauses: digest %s, want %s; checkpoints %+v", pauses, res.Digest, j.want.Digest, res.Checkpoints)
		}
	}
}
