package files

import (
	"context"
	"fmt"
	"io"
)

// FS is a place for files. Errors satisfy errors.Is with fs.ErrNotExist and
// fs.ErrExist, and with the errno where there is one. All methods may be called
// by several goroutines.
type FS interface {
	// Path is a file's full name, for people; "" gives the root's.
	Path(name string) string
	// Create begins a file, which must not be there, in a directory that is
	// made if need be.
	Create(ctx context.Context, name string) (File, error)
	// Open opens a file for reading.
	Open(ctx context.Context, name string) (Reader, error)
	// Read reads a whole file of at most limit bytes.
	Read(ctx context.Context, name string, limit int64) ([]byte, error)
	// List is what is in a directory, "" the root, in any order. There is
	// nothing in a directory that is not there.
	List(ctx context.Context, dir string) ([]Entry, error)
	// Put writes a small file so that it is there whole and durable, or not at
	// all. With absent it fails with fs.ErrExist where there is one already;
	// otherwise it replaces it.
	Put(ctx context.Context, name string, b []byte, absent bool) error
	// Sync makes the names in a directory, and its own, durable.
	Sync(ctx context.Context, dir string) error
	// Remove removes a file, or a directory with all that is in it. What is not
	// there is no error.
	Remove(ctx context.Context, name string) error
	// Lock makes the caller the only writer, or fails with a *LockedError. The
	// root is made if need be.
	Lock(ctx context.Context) (Lock, error)
}

// File is a file being written, by one goroutine.
type File interface {
	io.Writer
	// Close makes what was written durable. Without it there is no file that
	// anybody should look at.
	Close() error
	// Abort gives the file up; what is left of it goes with its directory. It
	// does nothing after Close.
	Abort()
}

// Reader is a file being read, by several goroutines.
type Reader interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Chunk is how many bytes one ReadAt should ask for.
	Chunk() int
	// Forget asks that what is cached of the file on this machine be dropped, so
	// that a measurement sees what is behind it.
	Forget()
}

// Entry is a file or a directory in a listing.
type Entry struct {
	Name  string // without the directory's
	Dir   bool
	Bytes int64
}

// Lock is held until Close or, in the end, the process's death.
type Lock interface{ Close() error }

// LockedError says who writes there already. PID is 0 where that is not known.
type LockedError struct {
	Path string
	PID  int
	Host string
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d on %s", e.PID, e.Host)
	}
	return fmt.Sprintf("%s writes to %s already; wait for it to end, end it, or choose another directory", who, e.Path)
}
