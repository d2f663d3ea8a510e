package launch

import (
	"os"
	"path/filepath"
	"testing"
)

// Only launchers that run are listed, and only this user's own.
func TestRunning(t *testing.T) {
	parent := t.TempDir()
	mine, err := OpenScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	make := func(name, marker string, mode os.FileMode) {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, markerName), []byte(marker), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.ReadFile(filepath.Join(mine.Path, markerName))
	if err != nil {
		t.Fatal(err)
	}
	make("psrt-open", string(own), 0o777)
	make("psrt-garbage", "{", 0o700)
	make("psrt-elsewhere", `{"psrt":1,"host":"another.example","boot":"x","pid":1,"start":1}`, 0o700)
	make("other-name", string(own), 0o700)
	list, err := Running(parent)
	if err != nil || len(list) != 1 || list[0].PID != os.Getpid() || list[0].Path != mine.Path {
		t.Errorf("%+v, %v", list, err)
	}
	if err := mine.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err = Running(parent); err != nil || len(list) != 0 {
		t.Errorf("after the end: %+v, %v", list, err)
	}
}
