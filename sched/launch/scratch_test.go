package launch

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// dead is the marker of a process that has ended.
func deadProcess(t *testing.T) marker {
	t.Helper()
	m, err := self()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	m.PID = c.Process.Pid
	if m.Start, err = startOf(m.PID); err != nil {
		t.Fatal(err)
	}
	c.Process.Kill()
	c.Wait()
	return m
}

// leave makes a directory as a launcher leaves it when it is killed.
func leave(t *testing.T, parent, name string, m marker) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.MkdirAll(filepath.Join(dir, "best"), 0o700); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(m)
	for name, text := range map[string]string{markerName: string(text), "token": "secret", "best/rows": "1 2 3"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func there(path string) bool { _, err := os.Lstat(path); return err == nil }

func TestSweep(t *testing.T) {
	gone := deadProcess(t)
	me, err := self()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		dir   string
		spoil func(m *marker)
		after func(t *testing.T, dir string)
		kept  bool
	}{
		{name: "killed", dir: "psrt-1"},
		{name: "pid used again", dir: "psrt-2", spoil: func(m *marker) { *m = me; m.Start-- }},
		{name: "before the boot", dir: "psrt-3", spoil: func(m *marker) { *m = me; m.Boot = "another" }},
		{name: "alive", dir: "psrt-4", spoil: func(m *marker) { *m = me }, kept: true},
		{name: "another host", dir: "psrt-5", spoil: func(m *marker) { m.Host += "x" }, kept: true},
		{name: "another version", dir: "psrt-6", spoil: func(m *marker) { m.Psrt = 2 }, kept: true},
		{name: "no start", dir: "psrt-7", spoil: func(m *marker) { m.Start = 0 }, kept: true},
		{name: "another name", dir: "prst-1", kept: true},
		{name: "open to others", dir: "psrt-8", after: func(t *testing.T, dir string) { os.Chmod(dir, 0o755) }, kept: true},
		{name: "no marker", dir: "psrt-9", after: func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, markerName)) }, kept: true},
		{name: "half a marker", dir: "psrt-10", after: func(t *testing.T, dir string) { os.Truncate(filepath.Join(dir, markerName), 9) }, kept: true},
		{name: "locked", dir: "psrt-11", after: func(t *testing.T, dir string) {
			f, err := os.Open(filepath.Join(dir, markerName))
			if err != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
				t.Fatal("no lock", err)
			}
			t.Cleanup(func() { f.Close() })
		}, kept: true},
		{name: "the marker is a link", dir: "psrt-12", after: func(t *testing.T, dir string) {
			os.Rename(filepath.Join(dir, markerName), filepath.Join(dir, "real"))
			os.Symlink("real", filepath.Join(dir, markerName))
		}, kept: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent, m := t.TempDir(), gone
			if c.spoil != nil {
				c.spoil(&m)
			}
			dir := leave(t, parent, c.dir, m)
			if c.after != nil {
				c.after(t, dir)
			}
			sweep(parent, os.Geteuid()+1)
			if !there(filepath.Join(dir, "token")) {
				t.Fatal("removed for another user")
			}
			sweep(parent, os.Geteuid())
			if kept := there(dir); kept != c.kept || kept && !there(filepath.Join(dir, "token")) {
				t.Errorf("kept: %v, want %v", kept, c.kept)
			}
		})
	}
}

// Links lead nowhere: neither one that looks like a scratch directory nor one
// that lies in it.
func TestSweepFollowsNoLinks(t *testing.T) {
	gone, elsewhere, parent := deadProcess(t), t.TempDir(), t.TempDir()
	target := leave(t, elsewhere, "psrt-1", gone)
	if err := os.Symlink(target, filepath.Join(parent, "psrt-1")); err != nil {
		t.Fatal(err)
	}
	inside := leave(t, parent, "psrt-2", gone)
	inner := leave(t, parent, "mine", gone)
	for link, to := range map[string]string{"psrt-3": inner, "psrt-2/out": target, "psrt-2/best/out": filepath.Join(target, "token")} {
		if err := os.Symlink(to, filepath.Join(parent, link)); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent, os.Geteuid())
	if there(inside) {
		t.Error("the directory with links in it is still there")
	}
	for _, p := range []string{filepath.Join(target, "token"), filepath.Join(target, "best/rows"), filepath.Join(inner, "token"), filepath.Join(parent, "psrt-1"), filepath.Join(parent, "psrt-3")} {
		if !there(p) {
			t.Errorf("%s was removed through a link", p)
		}
	}
}

// A scratch directory outlives the start of another, and goes when it is closed.
func TestScratch(t *testing.T) {
	parent := t.TempDir()
	killed := leave(t, parent, "psrt-1", deadProcess(t))
	one, err := OpenScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	two, err := OpenScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	if there(killed) || !there(one.Path) || !there(two.Path) {
		t.Errorf("killed %v, first %v, second %v", there(killed), there(one.Path), there(two.Path))
	}
	for _, s := range []*Scratch{one, two} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := OpenScratch(filepath.Join(parent, "nope")); err == nil {
		t.Error("made in a directory that is not there")
	}
}

// A directory goes from under who still writes there, and what is left of one whose
// removal was cut short is removed by the next start.
func TestUnlink(t *testing.T) {
	parent := t.TempDir()
	s, err := OpenScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(s.Path, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan int)
	begun := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			f, err := os.Create(filepath.Join(data, strconv.Itoa(n)))
			if err != nil {
				wrote <- n
				return
			}
			f.Close()
			if n == 100 {
				close(begun)
			}
		}
	}()
	<-begun
	if err := s.Unlink(); err != nil {
		t.Error(err)
	}
	if n := <-wrote; n < 100 {
		t.Errorf("%d files were written", n)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	short := leave(t, parent, "psrt-1"+endedSuffix, deadProcess(t))
	if err := os.Remove(filepath.Join(short, "token")); err != nil {
		t.Fatal(err)
	}
	sweep(parent, os.Geteuid())
	if there(short) {
		t.Errorf("%s is still there", short)
	}
}
