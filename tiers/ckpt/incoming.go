package ckpt

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"psrt/tiers/ckpt/files"
)

const (
	incomingPrefix = ".incoming-"
	partsPrefix    = "parts-"
	partSuffix     = ".part"
	ownerLock      = "LOCK" // held by the process that began
)

// Incoming is a model on its way into a directory.
type Incoming struct {
	disk files.Disk
	dir  string
	id   string
	lock *os.File // nil once it is over
}

// Begin makes room for a new model in dir, which is made if need be, and
// removes what crashed writers left there. End it by Commit or Abort.
func Begin(dir string) (*Incoming, error) { return begin(files.OS{}, dir) }

func begin(d files.Disk, dir string) (*Incoming, error) {
	if err := vacant(dir); err != nil {
		return nil, err
	}
	if err := d.MkdirAll(dir); err != nil {
		return nil, explain("making", dir, err)
	}
	l, err := lockDir(filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer l.Close()
	clean(d, dir)
	var random [4]byte
	rand.Read(random[:])
	in := &Incoming{disk: d, dir: dir, id: hex.EncodeToString(random[:])}
	if err := d.MkdirAll(in.Path()); err != nil {
		return nil, explain("making", in.Path(), err)
	}
	owner := filepath.Join(in.Path(), ownerLock)
	if in.lock, err = lockFile(owner, 0); err != nil || in.lock == nil {
		if err == nil {
			err = errNotMine
		}
		_ = d.RemoveAll(in.Path())
		return nil, explain("locking", owner, err)
	}
	return in, nil
}

var errNotMine = errors.New("its lock cannot be had")

// Path is the directory that writers are to be given.
func (in *Incoming) Path() string { return filepath.Join(in.dir, incomingPrefix+in.id) }

// Abort removes what was written. It does nothing after Commit.
func (in *Incoming) Abort() error {
	if in.lock == nil {
		return nil
	}
	defer in.end()
	if err := in.disk.RemoveAll(in.Path()); err != nil {
		return explain("removing", in.Path(), err)
	}
	return nil
}

func (in *Incoming) end() {
	in.lock.Close()
	in.lock = nil
}

// clean removes directories that the manifest does not name and nobody is
// writing. What cannot be removed stays for the next time: it is not in the
// way. DIR/.lock is held.
func clean(d files.Disk, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	keep := currentGeneration(dir)
	if keep == unknownGeneration {
		return
	}
	for _, e := range entries {
		n := e.Name()
		if n == keep || !ours(dir, n) || !abandoned(filepath.Join(dir, n)) {
			continue
		}
		_ = d.RemoveAll(filepath.Join(dir, n))
	}
	if exists(filepath.Join(dir, manifestTemp)) {
		_ = d.RemoveAll(filepath.Join(dir, manifestTemp))
	}
}

// unknownGeneration: there is a manifest and it cannot be read, so nothing can
// be said to be left over.
const unknownGeneration = "?"

// currentGeneration is the directory that the manifest names, "" if there is
// no manifest.
func currentGeneration(dir string) string {
	path := filepath.Join(dir, ManifestName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return unknownGeneration
	}
	m, err := parseManifest(path, b)
	if err != nil {
		return unknownGeneration
	}
	return m.Generation
}

// ours reports whether name is a directory that a writer made: what a user
// keeps beside a model is not for us to remove.
func ours(dir, name string) bool {
	id, incoming := strings.CutPrefix(name, incomingPrefix)
	id, parts := strings.CutPrefix(id, partsPrefix)
	if b, err := hex.DecodeString(id); err != nil || len(b) != 4 || incoming == parts {
		return false
	}
	entries, err := os.ReadDir(filepath.Join(dir, name))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Name() != ownerLock && !strings.HasSuffix(e.Name(), partSuffix) {
			return false
		}
	}
	return true
}

// abandoned reports whether nobody holds the directory's LOCK. LOCKs are made
// under DIR/.lock, which the caller holds, so there is none half made.
func abandoned(path string) bool {
	owner := filepath.Join(path, ownerLock)
	if !exists(owner) {
		return true
	}
	l, err := lockFile(owner, 0)
	if err != nil || l == nil {
		return false
	}
	l.Close()
	return true
}
