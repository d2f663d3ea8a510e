package launch

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Launcher is one that runs.
type Launcher struct {
	PID  int
	Path string // of its Scratch
}

// Running lists the launchers of this user and machine whose scratch is in
// parent, by pid. Directories of others, or that others can write, are not
// looked into.
func Running(parent string) ([]Launcher, error) {
	me, err := self()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var all []Launcher
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), scratchPrefix) {
			continue
		}
		if m, ok := markerIn(root, e.Name()); ok && m.Psrt == 1 && m.Host == me.Host && m.Boot == me.Boot && !m.dead(me) {
			all = append(all, Launcher{PID: m.PID, Path: filepath.Join(parent, e.Name())})
		}
	}
	slices.SortFunc(all, func(a, b Launcher) int { return a.PID - b.PID })
	return all, nil
}

func markerIn(root *os.Root, name string) (m marker, ok bool) {
	info, err := root.Lstat(name)
	if err != nil || !private(info, os.Geteuid()) {
		return m, false
	}
	f, err := root.Open(filepath.Join(name, markerName))
	if err != nil {
		return m, false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, markerMax))
	return m, err == nil && json.Unmarshal(text, &m) == nil
}
