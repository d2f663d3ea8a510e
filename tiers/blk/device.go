package blk

import "time"

// Op is what a Request asks for.
type Op uint8

const (
	Read    Op = iota // file -> Buf
	Write             // Buf -> file
	Sync              // all writes of the file that were answered before are durable when this is
	Discard           // Len bytes at Offset read as zeros and take no room
)

// Request is one operation on a file. Offset and the lengths are multiples of
// Device.Block, and Buf lies in memory from Device.Buffers.
type Request struct {
	Op     Op
	File   int // from Create or Open
	Offset int64
	Buf    []byte
	Len    int64  // of Discard
	ID     uint64 // the caller's, comes back in the Result
}

// Result ends a Request. N is less than the length only with an Err.
type Result struct {
	ID  uint64
	N   int
	Err error
}

// Device is one directory on one disk, and files in it. All calls belong to one
// goroutine, but Wake's function, which a Device may call from any.
type Device interface {
	// Block is the unit of offsets, lengths and addresses: 512 where the disk takes
	// that, else 4096.
	Block() int
	// Depth bounds the requests in flight.
	Depth() int
	// Buffers gives size bytes, aligned to 4096 and registered where the device
	// can; at most MaxBuffers times.
	Buffers(size int) ([]byte, error)

	Create(name string, size int64) (file int, err error) // room is set aside; fails if it exists
	Open(name string) (file int, size int64, err error)
	List() ([]string, error)
	Rename(from, to string) error // replaces, and is durable when it returns
	Remove(name string) error
	CloseFile(file int) error

	// Submit takes requests in order until Depth are in flight, in one system call
	// where it can, and says how many it took.
	Submit(rs []Request) (taken int, err error)
	// Poll takes results without waiting; Wait waits for at least one, or the
	// deadline (os.ErrDeadlineExceeded).
	Poll(out []Result) int
	Wait(deadline time.Time) error
	// OnResult has f called whenever Poll may find something new.
	OnResult(f func())

	// Space is what the directory's file system has, in bytes.
	Space() (free, total int64, err error)
	// String says what it is: "io_uring, 512 B blocks, /ssd/a", or why it is less.
	String() string
	Close() error
}

// MaxBuffers bounds the calls of Device.Buffers.
const MaxBuffers = 64
