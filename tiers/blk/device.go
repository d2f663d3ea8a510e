package blk

import "time"

// Op is what a Request asks for.
type Op uint8

const (
	Read    Op = iota // file -> Buf
	Write             // Buf -> file
	Sync              // all writes of the file that were answered before this was submitted are durable when it is answered
	Discard           // Len bytes at Offset read as zeros and take no room; durable with the next Sync
	Make              // Create(Name, Len) without waiting; Result.N is the file
	Unlink            // Remove(Name) without waiting
)

// Request is one operation. Offset and the lengths are multiples of
// Device.Block, Buf begins at one and lies in memory from Device.Buffers, which
// belongs to the device until the Result. Requests in flight have no order: who
// needs one waits for the first's Result.
type Request struct {
	Op     Op
	File   int // from Create, Open or Make
	Offset int64
	Buf    []byte
	Len    int64  // of Discard and Make
	Name   string // of Make and Unlink
	ID     uint64 // the caller's, comes back in the Result
}

// Result ends a Request. N is less than the length only with an Err, and after
// a failed Write any of its blocks may be old or new.
type Result struct {
	ID  uint64
	N   int
	Err error
}

// Device is one directory on one disk, and files in it. All calls belong to one
// goroutine, but OnResult's function, which a Device may call from any.
//
// What a crash leaves: files that Create, Make, Rename and Remove were answered
// for are as these left them; blocks that a Sync covers are as written; every
// other block that was written since is either as before or as any of the
// writes left it, each block by itself.
type Device interface {
	// Block is the unit of offsets, lengths and addresses: 512 where the disk takes
	// that, else 4096.
	Block() int
	// Depth bounds the requests in flight.
	Depth() int
	// Buffers gives size bytes, aligned to 4096 and registered where the device
	// can; at most MaxBuffers times. They are gone after Close.
	Buffers(size int) ([]byte, error)

	// The next ones wait for the disk, some milliseconds.
	Create(name string, size int64) (file int, err error) // room is set aside; fails if it exists
	Open(name string) (file int, size int64, err error)
	List() ([]string, error)      // sorted
	Rename(from, to string) error // replaces
	Remove(name string) error     // a file still open goes on to work
	CloseFile(file int) error     // fails while requests on it are in flight

	// Submit takes requests in order until Depth are in flight, in one system call
	// where it can, and says how many it took. An err is about the request behind
	// those, which breaks a rule of Request, or about the whole device.
	Submit(rs []Request) (taken int, err error)
	// Poll takes results without waiting; Wait waits for at least one, or the
	// deadline (os.ErrDeadlineExceeded). With none in flight it is ErrIdle.
	Poll(out []Result) int
	Wait(deadline time.Time) error
	// OnResult has f called whenever Poll may find something new, from any
	// goroutine, Submit's and Poll's own included. f must not wait. Called once,
	// before the first Submit. Who means to sleep until f calls Polls until that
	// gives less than it could.
	OnResult(f func())

	// Space is what the directory's file system has, in bytes.
	Space() (free, total int64, err error)
	// String says what it is: "io_uring, 512 B blocks, /ssd/a", or why it is less.
	String() string
	// Close waits for what is in flight. Closing again does nothing.
	Close() error
}

// MaxBuffers bounds the calls of Device.Buffers.
const MaxBuffers = 64
