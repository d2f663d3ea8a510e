package launch

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// sweep removes the scratch directories of dead launchers. In doubt it leaves
// them, and nothing that goes wrong matters: the next start tries again. All
// names are looked up under an os.Root, which no symbolic link leads out of.
func sweep(parent string, uid int) {
	me, err := self()
	if err != nil {
		return
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), scratchPrefix) {
			sweepOne(root, e.Name(), uid, me)
		}
	}
}

// sweepOne removes one directory if it is a dead launcher's.
func sweepOne(root *os.Root, name string, uid int, me marker) {
	before, err := root.Lstat(name)
	if err != nil || !private(before, uid) {
		return
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()
	// The lock is held until the end, so that of two sweepers one removes.
	file := deadMarker(dir, uid, me)
	if file == nil {
		return
	}
	defer file.Close()
	opened, err := dir.Stat(".")
	now, err2 := root.Lstat(name)
	if err != nil || err2 != nil || !os.SameFile(before, opened) || !os.SameFile(now, opened) {
		return
	}
	// The marker goes last: if this is interrupted the rest is still known.
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != markerName && dir.RemoveAll(e.Name()) != nil {
			return
		}
	}
	if dir.Remove(markerName) == nil {
		_ = root.Remove(name)
	}
}

// private says whether only uid can have put something there.
func private(info fs.FileInfo, uid int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.IsDir() && int(st.Uid) == uid && info.Mode().Perm()&0o077 == 0
}

// deadMarker opens and locks the marker if its owner is dead, else it is nil.
func deadMarker(dir *os.Root, uid int, me marker) *os.File {
	info, err := dir.Lstat(markerName)
	if err != nil || !info.Mode().IsRegular() || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
		return nil
	}
	f, err := dir.Open(markerName)
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, markerMax))
	var m marker
	if err != nil || json.Unmarshal(text, &m) != nil || !m.dead(me) ||
		syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	return f
}
