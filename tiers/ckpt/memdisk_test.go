package ckpt

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/tiers/ckpt/files"
)

// memDisk is a disk in memory that can lose its power: what was not synced is
// then kept, lost or torn, by chance. Names are files; a directory is there
// when MkdirAll made it.
type memDisk struct {
	mu      sync.Mutex
	now     map[string]*memFile // by path
	durable map[string]*memFile // what a directory's sync has put on the disk
	left    int                 // operations until the power is cut; negative: never
}

type memFile struct {
	dir    bool
	data   []byte
	synced []byte
}

var errPowerCut = errors.New("the power was cut")

func newMemDisk(root string) *memDisk {
	d := &memDisk{now: map[string]*memFile{}, durable: map[string]*memFile{}, left: -1}
	// The root is a real directory of the test's, for the lock.
	for p := root; ; p = filepath.Dir(p) {
		d.now[p] = &memFile{dir: true}
		d.durable[p] = d.now[p]
		if p == filepath.Dir(p) {
			return d
		}
	}
}

// begin is the beginning of every operation; the mutex is held after it, too.
func (d *memDisk) begin() error {
	d.mu.Lock()
	if d.left == 0 {
		return errPowerCut
	}
	d.left--
	return nil
}

func (d *memDisk) MkdirAll(dir string) error {
	defer d.mu.Unlock()
	if err := d.begin(); err != nil {
		return err
	}
	for ; d.now[dir] == nil; dir = filepath.Dir(dir) {
		d.now[dir] = &memFile{dir: true}
	}
	return nil
}

func notThere(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }

func (d *memDisk) Create(path string) (files.DiskFile, error) {
	defer d.mu.Unlock()
	if err := d.begin(); err != nil {
		return nil, err
	}
	switch {
	case d.now[filepath.Dir(path)] == nil:
		return nil, notThere(path)
	case d.now[path] != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrExist}
	}
	f := &memFile{}
	d.now[path] = f
	return &memHandle{d, f}, nil
}

type memHandle struct {
	d *memDisk
	f *memFile
}

func (h *memHandle) Write(b []byte) (int, error) {
	defer h.d.mu.Unlock()
	if err := h.d.begin(); err != nil {
		return 0, err
	}
	h.f.data = append(h.f.data, b...)
	return len(b), nil
}

func (h *memHandle) Sync() error {
	defer h.d.mu.Unlock()
	if err := h.d.begin(); err != nil {
		return err
	}
	h.f.synced = bytes.Clone(h.f.data)
	return nil
}

func (h *memHandle) Close() error { return nil }

type memReader struct {
	*bytes.Reader
	info memInfo
}

func (memReader) Close() error                 { return nil }
func (r memReader) Stat() (fs.FileInfo, error) { return r.info, nil }

func (d *memDisk) Open(path string) (files.DiskReader, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, errPowerCut
	}
	f := d.now[path]
	if f == nil || f.dir {
		return nil, notThere(path)
	}
	return memReader{bytes.NewReader(f.data), memInfo{filepath.Base(path), f}}, nil
}

type memInfo struct {
	name string
	f    *memFile
}

func (i memInfo) Name() string               { return i.name }
func (i memInfo) Size() int64                { return int64(len(i.f.data)) }
func (i memInfo) ModTime() time.Time         { return time.Time{} }
func (i memInfo) IsDir() bool                { return i.f.dir }
func (i memInfo) Sys() any                   { return nil }
func (i memInfo) Type() fs.FileMode          { return i.Mode().Type() }
func (i memInfo) Info() (fs.FileInfo, error) { return i, nil }
func (i memInfo) Mode() fs.FileMode {
	if i.f.dir {
		return fs.ModeDir
	}
	return 0
}

func (d *memDisk) ReadDir(dir string) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return nil, errPowerCut
	}
	if d.now[dir] == nil {
		return nil, notThere(dir)
	}
	var list []fs.DirEntry
	for p, f := range d.now {
		if filepath.Dir(p) == dir && p != dir {
			list = append(list, memInfo{filepath.Base(p), f})
		}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (d *memDisk) Rename(from, to string, replace bool) error {
	defer d.mu.Unlock()
	if err := d.begin(); err != nil {
		return err
	}
	f := d.now[from]
	if f == nil {
		return notThere(from)
	}
	if d.now[to] != nil && !replace {
		return &fs.PathError{Op: "rename", Path: to, Err: fs.ErrExist}
	}
	delete(d.now, from)
	d.now[to] = f
	return nil
}

func (d *memDisk) SyncDir(dir string) error {
	defer d.mu.Unlock()
	if err := d.begin(); err != nil {
		return err
	}
	if d.now[dir] == nil {
		return notThere(dir)
	}
	for _, p := range d.paths() {
		if filepath.Dir(p) == dir {
			d.settle(d.durable, p, true)
		}
	}
	return nil
}

func (d *memDisk) RemoveAll(path string) error {
	defer d.mu.Unlock()
	if err := d.begin(); err != nil {
		return err
	}
	for p := range d.now {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(d.now, p)
		}
	}
	return nil
}

// paths are all that are there or were, parents first.
func (d *memDisk) paths() []string {
	var list []string
	for p := range d.now {
		list = append(list, p)
	}
	for p := range d.durable {
		if d.now[p] == nil {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// settle gives a path in a namespace what it is now, or what is on the disk.
func (d *memDisk) settle(in map[string]*memFile, p string, now bool) {
	from := d.durable
	if now {
		from = d.now
	}
	if f := from[p]; f != nil {
		in[p] = f
	} else {
		delete(in, p)
	}
}

// crash is the disk after a power cut: each name that was not synced is as it
// was or as it was to be, each file has lost some of what was not.
func (d *memDisk) crash(rng *rand.Rand) *memDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]*memFile{}
	for _, p := range d.paths() {
		if names[filepath.Dir(p)] != nil || p == filepath.Dir(p) {
			d.settle(names, p, d.now[p] != d.durable[p] && rng.IntN(2) == 0)
		}
	}
	after := &memDisk{now: map[string]*memFile{}, durable: map[string]*memFile{}, left: -1}
	for p, f := range names {
		data := bytes.Clone(f.synced)
		if extra := len(f.data) - len(f.synced); extra > 0 {
			data = append(data, f.data[len(f.synced):len(f.synced)+rng.IntN(extra+1)]...)
			if k := rng.IntN(3); k == 0 {
				clear(data[len(f.synced):]) // room was made, and nothing written
			}
		}
		after.now[p] = &memFile{dir: f.dir, data: data, synced: bytes.Clone(data)}
		after.durable[p] = after.now[p]
	}
	return after
}
