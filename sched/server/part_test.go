package server

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A folder is one process's at a time, whatever the user's path is called, and is gone
// when it leaves.
func TestOwn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b*?")
	stale := filepath.Join(dir, "psrt-replica3", "psrt-server3-group1")
	must(t, os.MkdirAll(stale, 0o700))
	s := &Storage{Dirs: []string{dir}}
	var holders sync.Mutex
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for taken := 0; taken < 20; {
				own, end, err := s.Own(3)
				if err != nil { // another has it
					continue
				}
				if !holders.TryLock() {
					t.Error("two have the folder")
					return
				}
				if _, err := os.Stat(stale); err == nil {
					t.Error("what was left is there still")
				}
				at := filepath.Join(own.Dirs[0], "psrt-server3-group0")
				if err := os.Mkdir(at, 0o700); err != nil {
					t.Error(err)
				}
				if _, err := os.Stat(at); err != nil {
					t.Error(err)
				}
				holders.Unlock()
				if err := end(); err != nil {
					t.Error(err)
				}
				taken++
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
