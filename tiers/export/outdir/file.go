package outdir

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"path/filepath"
)

// File is a file of an export being written. It belongs to one goroutine. After
// its first error it does nothing more, and Close returns that error.
type File struct {
	in   *Incoming
	f    file
	path string
	buf  *bufio.Writer
	sum  hash.Hash
	info FileInfo
	err  error
	done bool
}

// Create begins a file.
func (in *Incoming) Create(name string) (*File, error) {
	path := filepath.Join(in.path, name)
	if !validName(name) {
		return nil, fmt.Errorf("export: file name %q, want letters, digits, dots, dashes and underscores, at most 200", name)
	}
	f, err := in.disk.create(path)
	if err != nil {
		return nil, Explain("making", path, err)
	}
	in.open[name] = true
	out := &File{in: in, f: f, path: path, sum: sha256.New(), info: FileInfo{Name: name}}
	out.buf = bufio.NewWriterSize(through{out}, 1<<20)
	return out, nil
}

// through writes and hashes whole buffers.
type through struct{ f *File }

func (t through) Write(b []byte) (int, error) {
	n, err := t.f.f.Write(b)
	t.f.sum.Write(b[:n])
	t.f.info.Bytes += int64(n)
	return n, err
}

// Write is an io.Writer's.
func (f *File) Write(b []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.buf.Write(b)
	if err != nil {
		f.err = Explain("writing", f.path, err)
	}
	return n, f.err
}

// Close puts the file on the disk and describes it. Closing again does nothing.
func (f *File) Close() (FileInfo, error) {
	if f.done {
		return f.info, f.err
	}
	f.done = true
	delete(f.in.open, f.info.Name)
	doing := "writing"
	err := f.err
	if err == nil {
		err = f.buf.Flush()
	}
	if err == nil {
		doing, err = "syncing", f.f.Sync()
	}
	if e := f.f.Close(); err == nil {
		doing, err = "closing", e
	}
	if err != nil && f.err == nil {
		f.err = Explain(doing, f.path, err)
	}
	if f.err == nil {
		f.info.SHA256 = hex.EncodeToString(f.sum.Sum(nil))
		if f.info.Name != ManifestName {
			f.in.files = append(f.in.files, f.info)
		}
	}
	return f.info, f.err
}
