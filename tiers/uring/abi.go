package uring

// The kernel's interface: include/uapi/linux/io_uring.h. Only what is used.

// Opcode is what an Entry asks for.
type Opcode uint8

const (
	OpNop        Opcode = 0
	OpFsync      Opcode = 3
	OpReadFixed  Opcode = 4
	OpWriteFixed Opcode = 5
	OpFallocate  Opcode = 17
	OpRead       Opcode = 22
	OpWrite      Opcode = 23
)

// Entry is struct io_uring_sqe. Its meaning depends on the Opcode; Read, Write,
// Fsync and Fallocate fill it.
type Entry struct {
	Opcode      Opcode
	Flags       uint8
	Priority    uint16
	FD          int32  // a descriptor, or with FixedFile a slot of RegisterFile
	Offset      uint64 // in the file
	Addr        uint64 // of the memory; of Fallocate, the length
	Len         uint32 // bytes; of Fallocate, the mode
	OpFlags     uint32
	User        uint64 // comes back in the Completion
	Buffer      uint16 // slot of RegisterBuffer
	Personality uint16
	FileIndex   uint32
	_           [2]uint64
}

// FixedFile in Entry.Flags says that FD is a slot.
const FixedFile = 1 << 0

// DataSync in Entry.OpFlags of OpFsync makes it fdatasync.
const DataSync = 1 << 0

// Completion is struct io_uring_cqe: Res is what the system call would have
// returned, an errno negated if it failed.
type Completion struct {
	User  uint64
	Res   int32
	Flags uint32
}

const entryBytes, completionBytes = 64, 16

// Flags of io_uring_setup.
const (
	setupCQSize       = 1 << 3
	setupClamp        = 1 << 4
	setupDisabled     = 1 << 6
	setupSubmitAll    = 1 << 7
	setupCoopTaskrun  = 1 << 8
	setupTaskrunFlag  = 1 << 9
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
)

// What io_uring_params.features offers.
const (
	featSingleMmap = 1 << 0
	featNoDrop     = 1 << 1
	featExtArg     = 1 << 8
)

// Flags of io_uring_enter, and of the rings.
const (
	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3

	sqOverflow = 1 << 1
	sqTaskrun  = 1 << 2
)

const (
	offRings   = 0
	offEntries = 0x10000000
)

// Operations of io_uring_register.
const (
	regFiles         = 2
	regEventfd       = 4
	regFilesUpdate   = 6
	regProbe         = 8
	regEnable        = 12
	regBuffers2      = 15
	regBuffersUpdate = 16

	rsrcSparse = 1 << 0
)

type params struct {
	sqEntries, cqEntries, flags, sqCPU, sqIdle, features, wqFD uint32

	_  [3]uint32
	sq struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32

		_ uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32

		_ uint64
	}
}

type rsrcRegister struct {
	nr, flags  uint32
	_          uint64
	data, tags uint64
}

type rsrcUpdate struct {
	offset, _  uint32
	data, tags uint64
	nr, _      uint32
}

type filesUpdate struct {
	offset, _ uint32
	fds       uint64
}

type probe struct {
	last, n uint8
	_       uint16
	_       [3]uint32
	ops     [256]struct {
		op, _ uint8
		flags uint16
		_     uint32
	}
}

type getEventsArg struct {
	sigmask      uint64
	sigmaskBytes uint32
	_            uint32
	timeout      uint64
}

// Read reads len(buf) bytes at offset into a registered buffer's memory; the
// memory belongs to the kernel until the completion.
func Read(fd int32, flags uint8, buffer uint16, addr uint64, n uint32, offset int64, user uint64) Entry {
	return Entry{Opcode: OpReadFixed, Flags: flags, FD: fd, Buffer: buffer, Addr: addr, Len: n, Offset: uint64(offset), User: user}
}

// Write is the other direction.
func Write(fd int32, flags uint8, buffer uint16, addr uint64, n uint32, offset int64, user uint64) Entry {
	return Entry{Opcode: OpWriteFixed, Flags: flags, FD: fd, Buffer: buffer, Addr: addr, Len: n, Offset: uint64(offset), User: user}
}

// Unregistered makes a Read or Write one into memory that is in no registered
// buffer.
func (e Entry) Unregistered() Entry {
	switch e.Opcode {
	case OpReadFixed:
		e.Opcode = OpRead
	case OpWriteFixed:
		e.Opcode = OpWrite
	}
	e.Buffer = 0
	return e
}

// Fsync makes the file's written data durable; metadata only as far as
// reading it back takes.
func Fsync(fd int32, flags uint8, user uint64) Entry {
	return Entry{Opcode: OpFsync, Flags: flags, FD: fd, OpFlags: DataSync, User: user}
}

// Fallocate is fallocate(2): mode as there.
func Fallocate(fd int32, flags uint8, mode uint32, offset, n int64, user uint64) Entry {
	return Entry{Opcode: OpFallocate, Flags: flags, FD: fd, Len: mode, Offset: uint64(offset), Addr: uint64(n), User: user}
}
