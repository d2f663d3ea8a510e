package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// TempPrefix begins the names of files that Put is writing: what a crash left
// of one, where nobody holds the lock.
const TempPrefix = ".put-"

// localChunk is large enough for a disk's full rate and small enough that a few
// of them in flight stay in cache.
const localChunk = 1 << 20

// Dir is a local directory as an FS.
type Dir struct {
	root string
	disk Disk
}

// NewDir is the directory root, which need not be there yet.
func NewDir(root string) *Dir { return OnDisk(root, OS{}) }

// OnDisk is NewDir over another disk.
func OnDisk(root string, disk Disk) *Dir { return &Dir{root, disk} }

func (d *Dir) Path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

func (d *Dir) Create(_ context.Context, name string) (File, error) {
	path := d.Path(name)
	f, err := d.disk.Create(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.disk.MkdirAll(filepath.Dir(path)); err != nil {
			return nil, err
		}
		f, err = d.disk.Create(path)
	}
	if err != nil {
		return nil, err
	}
	return &dirFile{f}, nil
}

// dirFile is durable once it is closed.
type dirFile struct{ f DiskFile }

func (f *dirFile) Write(b []byte) (int, error) { return f.f.Write(b) }

func (f *dirFile) Close() error {
	if f.f == nil {
		return fs.ErrClosed
	}
	err := errors.Join(f.f.Sync(), f.f.Close())
	f.f = nil
	return err
}

func (f *dirFile) Abort() {
	if f.f != nil {
		_ = f.f.Close() // the error that matters came before
		f.f = nil
	}
}

type dirReader struct {
	DiskReader
	size int64
}

func (r *dirReader) Size() int64 { return r.size }
func (r *dirReader) Chunk() int  { return localChunk }

func (r *dirReader) Forget() {
	if f, ok := r.DiskReader.(*os.File); ok {
		// A hint, too: pages that others map stay.
		_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
}

func (d *Dir) Open(_ context.Context, name string) (Reader, error) {
	f, err := d.disk.Open(d.Path(name))
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("it is no file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &dirReader{f, st.Size()}, nil
}

func (d *Dir) Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	r, err := d.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return ReadAll(r, limit)
}

// ReadAll reads a file of at most limit bytes.
func ReadAll(r Reader, limit int64) ([]byte, error) {
	if r.Size() > limit {
		return nil, fmt.Errorf("it has %d bytes, at most %d make sense", r.Size(), limit)
	}
	b := make([]byte, r.Size())
	_, err := io.ReadFull(io.NewSectionReader(r, 0, r.Size()), b)
	return b, err
}

func (d *Dir) List(_ context.Context, dir string) ([]Entry, error) {
	list, err := d.disk.ReadDir(d.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, e := range list {
		st, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{e.Name(), e.IsDir(), st.Size()})
	}
	return entries, nil
}

func (d *Dir) Put(ctx context.Context, name string, b []byte, absent bool) error {
	temp := d.Path(TempPrefix + name)
	if err := d.disk.RemoveAll(temp); err != nil {
		return err
	}
	f, err := d.Create(ctx, TempPrefix+name)
	if err == nil {
		if _, err = f.Write(b); err == nil {
			err = f.Close()
		}
		f.Abort()
	}
	if err == nil {
		err = d.disk.Rename(temp, d.Path(name), !absent)
	}
	if err != nil {
		_ = d.disk.RemoveAll(temp) // the error that matters is err
		return err
	}
	return d.disk.SyncDir(d.root)
}

func (d *Dir) Sync(_ context.Context, dir string) error {
	if err := d.disk.SyncDir(d.Path(dir)); err != nil || dir == "" {
		return err
	}
	return d.disk.SyncDir(d.root)
}

func (d *Dir) Remove(_ context.Context, name string) error { return d.disk.RemoveAll(d.Path(name)) }
