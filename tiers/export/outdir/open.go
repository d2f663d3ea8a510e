package outdir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Export is an opened one. It goes on with the files of its manifest when
// another export takes their place, as long as they are not removed.
type Export struct {
	Dir string
	Manifest

	root *os.Root
}

// IsExport says whether Open would find a manifest, good or bad.
func IsExport(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, ManifestName))
	return err == nil
}

// Open reads the manifest, and looks whether the files have their sizes.
func Open(dir string) (*Export, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noExport(dir)
	}
	if err != nil {
		return nil, Explain("opening", dir, err)
	}
	e := &Export{Dir: dir, root: root}
	if err := e.read(); err != nil {
		_ = root.Close() // nothing was written
		return nil, err
	}
	return e, nil
}

func noExport(dir string) error {
	return fmt.Errorf("export: %s: %w (it has no %s); give the --out directory of psrt export", dir, ErrNone, ManifestName)
}

func (e *Export) read() error {
	m, err := readManifest(e.root, e.Dir)
	if err != nil {
		return err
	}
	e.Manifest = *m
	for _, info := range m.Files {
		st, err := e.root.Stat(info.Name)
		if err != nil {
			return e.missing(info.Name, err)
		}
		if st.Size() != info.Bytes {
			return Corrupt(e.Path(info.Name), "it has %d bytes, the manifest says %d", st.Size(), info.Bytes)
		}
	}
	return nil
}

// ReadManifest reads the manifest alone: its files may have been changed or removed.
func ReadManifest(dir string) (*Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, Explain("opening", dir, err)
	}
	defer root.Close()
	return readManifest(root, dir)
}

func readManifest(root *os.Root, dir string) (*Manifest, error) {
	path := filepath.Join(dir, ManifestName)
	f, err := root.Open(ManifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noExport(dir)
	}
	if err != nil {
		return nil, Explain("opening", path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, Explain("reading", path, err)
	}
	if len(b) > maxManifest {
		return nil, Corrupt(path, "it has more than %d bytes", maxManifest)
	}
	return parseManifest(path, b)
}

// missing is the error for a file that the manifest names and that cannot be
// had: gone, or removed with all of its export.
func (e *Export) missing(name string, err error) error {
	if mine, e1 := e.root.Stat("."); e1 == nil {
		if there, e2 := os.Stat(e.Dir); e2 == nil && !os.SameFile(mine, there) {
			return fmt.Errorf("export: %s: %w; open it again", e.Dir, ErrReplaced)
		}
	}
	return Corrupt(e.Path(name), "the manifest names it, and it cannot be opened: %v", err)
}

// Path is where a file of the export lies, for errors.
func (e *Export) Path(name string) string { return filepath.Join(e.Dir, name) }

// Open opens a file that the manifest names.
func (e *Export) Open(name string) (*os.File, error) {
	f, err := e.root.Open(name)
	if err != nil {
		return nil, e.missing(name, err)
	}
	return f, nil
}

// Has says whether the manifest names the file.
func (e *Export) Has(name string) bool {
	for _, f := range e.Files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Close ends the use of the directory; files that were opened stay open.
func (e *Export) Close() error { return e.root.Close() }
