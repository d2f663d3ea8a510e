package outdir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Incoming is an export on its way into its directory.
type Incoming struct {
	disk  disk
	dir   string // absolute, without symbolic links
	path  string // beside it, until Commit
	lock  *os.File
	files []FileInfo
	open  map[string]bool
}

// Begin makes room for a new export of dir. End it by Commit or Abort.
func Begin(dir string) (*Incoming, error) { return begin(osDisk{}, dir) }

func begin(d disk, dir string) (*Incoming, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, Explain("looking at", dir, err)
	}
	if real, err := filepath.EvalSymlinks(full); err == nil {
		full = real // what a link points to is replaced, not the link
	}
	if err := replaceable(full); err != nil {
		return nil, err
	}
	parent := filepath.Dir(full)
	if err := d.mkdirAll(parent); err != nil {
		return nil, Explain("making", parent, err)
	}
	clean(d, full)
	in := &Incoming{disk: d, dir: full, open: map[string]bool{}}
	for range 100 {
		var random [4]byte
		rand.Read(random[:])
		in.path = prefix(full) + hex.EncodeToString(random[:])
		if err := d.mkdir(in.path); err != nil {
			return nil, Explain("making", in.path, err)
		}
		// Another export of the same directory may take it for a leftover as long
		// as it is not locked.
		if in.lock, err = lockDir(in.path); err != nil {
			_ = d.removeAll(in.path)
			return nil, Explain("locking", in.path, err)
		}
		if in.lock != nil {
			return in, nil
		}
	}
	return nil, fmt.Errorf("export: directories made beside %s vanish; is something cleaning %s?", full, parent)
}

// Path is where files may be made meanwhile that Commit does not want: they must
// be gone by then.
func (in *Incoming) Path() string { return in.path }

// prefix begins the names of exports of dir that are being written.
func prefix(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".export-")
}

// replaceable refuses a dir in which there is anything but an export. Other
// exports may take its place meanwhile.
func replaceable(dir string) error {
	for range 100 {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			return Explain("looking at", dir, err)
		}
		e, err := Open(dir)
		if errors.Is(err, ErrReplaced) {
			continue
		}
		if err != nil && !errors.Is(err, ErrNone) {
			return Refuse("%w (or remove %s)", err, dir)
		}
		if e == nil && slices.ContainsFunc(entries, func(x fs.DirEntry) bool { return x.Name() == ManifestName }) {
			continue // another export came in between the two looks
		}
		stranger := e.stranger(entries)
		if e != nil {
			entries, err = fs.ReadDir(e.root.FS(), ".") // those of this export, surely
			stranger = e.stranger(entries)
			_ = e.Close() // nothing was written
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was replaced, and is gone
			}
			if err != nil {
				return Explain("looking at", dir, err)
			}
		}
		if stranger != "" {
			return Refuse("export: %s has %s in it, which no export wrote, and would be replaced as a whole; choose a directory that is new or holds only an export", dir, stranger)
		}
		return nil
	}
	return fmt.Errorf("export: %s is replaced by others again and again; export elsewhere", dir)
}

// stranger is a name that is not one of the export's files, "" if there is none.
// Without an export every name is one.
func (e *Export) stranger(entries []fs.DirEntry) string {
	for _, entry := range entries {
		if e == nil || entry.Name() != ManifestName && !e.Has(entry.Name()) {
			return entry.Name()
		}
	}
	return ""
}

// clean removes what crashed exports of dir left. What cannot be removed stays
// for the next time: it is not in the way.
func clean(d disk, dir string) {
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(dir), e.Name())
		id, ours := strings.CutPrefix(path, prefix(dir))
		if b, err := hex.DecodeString(id); !ours || err != nil || len(b) != 4 || !e.IsDir() {
			continue
		}
		if l, err := lockDir(path); err == nil && l != nil {
			_ = d.removeAll(path)
			l.Close()
		}
	}
}

// Commit puts the files that were created into place, with a manifest that
// describes them. When it fails the old export is untouched, and the new one is
// removed.
func (in *Incoming) Commit(kind string, format int, content []byte) error {
	if in.lock == nil {
		return fmt.Errorf("export: %s is committed or aborted already", in.dir)
	}
	defer func() { _ = in.Abort() }() // what is left is for the next Begin
	if len(in.open) > 0 {
		return fmt.Errorf("export: %d files of %s are not closed", len(in.open), in.dir)
	}
	m := Manifest{Kind: kind, Format: format, Content: content, Files: in.files}
	b, err := m.render()
	if err != nil {
		return err
	}
	f, err := in.Create(ManifestName)
	if err != nil {
		return err
	}
	_, _ = f.Write(b) // Close tells
	if _, err := f.Close(); err != nil {
		return err
	}
	if err := in.disk.syncDir(in.path); err != nil {
		return Explain("syncing", in.path, err)
	}
	if err := replaceable(in.dir); err != nil { // what may have come meanwhile
		return err
	}
	if err := in.disk.replace(in.path, in.dir); err != nil {
		return Explain("replacing", in.dir, err)
	}
	// What is at in.path now, if anything, is the old export: Abort removes it.
	if err := in.disk.syncDir(filepath.Dir(in.dir)); err != nil {
		return Explain("syncing", filepath.Dir(in.dir), err)
	}
	return nil
}

// Abort removes what was written. It does nothing after Commit.
func (in *Incoming) Abort() error {
	if in.lock == nil {
		return nil
	}
	defer func() { in.lock.Close(); in.lock = nil }()
	if err := in.disk.removeAll(in.path); err != nil {
		return Explain("removing", in.path, err)
	}
	return nil
}
