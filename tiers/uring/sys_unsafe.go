package uring

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is the memory of one ring, mapped from the kernel.
type shared struct {
	rings, sqes []byte // mappings

	sqHead, sqTail, sqFlags *atomic.Uint32
	cqHead, cqTail          *atomic.Uint32

	sqMask, cqMask uint32

	entries     []Entry
	array       []uint32
	completions []Completion
}

// mapRings maps what setup described. The kernel has checked its own offsets;
// they are checked again all the same, because what follows trusts them.
func mapRings(fd int, p *params) (*shared, error) {
	size := max(int(p.sq.array)+4*int(p.sqEntries), int(p.cq.cqes)+completionBytes*int(p.cqEntries))
	s := &shared{}
	var err error
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	if s.rings, err = unix.Mmap(fd, offRings, size, prot, flags); err != nil {
		return nil, err
	}
	if s.sqes, err = unix.Mmap(fd, offEntries, entryBytes*int(p.sqEntries), prot, flags); err != nil {
		s.unmap()
		return nil, err
	}
	word := func(off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&s.rings[off])) }
	s.sqHead, s.sqTail, s.sqFlags = word(p.sq.head), word(p.sq.tail), word(p.sq.flags)
	s.cqHead, s.cqTail = word(p.cq.head), word(p.cq.tail)
	s.sqMask, s.cqMask = word(p.sq.mask).Load(), word(p.cq.mask).Load()
	s.entries = unsafe.Slice((*Entry)(unsafe.Pointer(&s.sqes[0])), p.sqEntries)
	s.array = unsafe.Slice((*uint32)(unsafe.Pointer(&s.rings[p.sq.array])), p.sqEntries)
	s.completions = unsafe.Slice((*Completion)(unsafe.Pointer(&s.rings[p.cq.cqes])), p.cqEntries)
	return s, nil
}

func (s *shared) unmap() {
	if s.sqes != nil {
		_ = unix.Munmap(s.sqes)
	}
	if s.rings != nil {
		_ = unix.Munmap(s.rings)
	}
	*s = shared{}
}

func setup(entries uint32, p *params) (fd int, errno unix.Errno) {
	r, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	return int(r), errno
}

// enter submits and returns at once. It does not tell Go's scheduler: the
// kernel does not sleep in it (what would, it gives to threads of its own), and
// a processor taken away for some microseconds of work is slow to come back.
func enter(fd int, submit, flags uint32) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), 0, uintptr(flags), 0, 0)
	return int(r), errno
}

// waitArg lies in a Ring, on the heap: the kernel follows arg's address to
// timeout, and stacks move.
type waitArg struct {
	arg     getEventsArg
	timeout unix.Timespec
}

// enterWait submits and sleeps until atLeast completions are there, or the
// timeout. It needs featExtArg.
func enterWait(fd int, submit, atLeast uint32, w *waitArg) (int, unix.Errno) {
	w.arg.timeout = uint64(uintptr(unsafe.Pointer(&w.timeout)))
	r, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(atLeast),
		enterGetEvents|enterExtArg, uintptr(unsafe.Pointer(&w.arg)), unsafe.Sizeof(w.arg))
	return int(r), errno
}

// registerArgs are the structs of all registrations, in a Ring for the same
// reason.
type registerArgs struct {
	sparse rsrcRegister
	update rsrcUpdate
	files  filesUpdate
	iovec  unix.Iovec
	fd     int32
	fds    []int32
	probe  probe
}

func register(fd int, op uint32, arg unsafe.Pointer, n uintptr) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), uintptr(op), uintptr(arg), n, 0, 0)
	return errno
}

func registerEnable(fd int) unix.Errno { return register(fd, regEnable, nil, 0) }

func (a *registerArgs) eventfd(fd, event int) unix.Errno {
	a.fd = int32(event)
	return register(fd, regEventfd, unsafe.Pointer(&a.fd), 1)
}

func (a *registerArgs) probeOps(fd int) unix.Errno {
	return register(fd, regProbe, unsafe.Pointer(&a.probe), uintptr(len(a.probe.ops)))
}

// noFiles makes a table of n empty slots.
func (a *registerArgs) noFiles(fd, n int) unix.Errno {
	a.fds = make([]int32, n)
	for i := range a.fds {
		a.fds[i] = -1
	}
	errno := register(fd, regFiles, unsafe.Pointer(unsafe.SliceData(a.fds)), uintptr(n))
	a.fds = nil
	return errno
}

// file puts file, or -1, into a slot. The call answers with a count: 1.
func (a *registerArgs) file(fd, slot, file int) unix.Errno {
	a.fd = int32(file)
	a.files = filesUpdate{offset: uint32(slot), fds: uint64(uintptr(unsafe.Pointer(&a.fd)))}
	return register(fd, regFilesUpdate, unsafe.Pointer(&a.files), 1)
}

// noBuffers makes a table of n empty slots.
func (a *registerArgs) noBuffers(fd, n int) unix.Errno {
	a.sparse = rsrcRegister{nr: uint32(n), flags: rsrcSparse}
	return register(fd, regBuffers2, unsafe.Pointer(&a.sparse), unsafe.Sizeof(a.sparse))
}

func (a *registerArgs) buffer(fd, slot int, b []byte) unix.Errno {
	a.iovec = unix.Iovec{Base: unsafe.SliceData(b)}
	a.iovec.SetLen(len(b))
	a.update = rsrcUpdate{offset: uint32(slot), data: uint64(uintptr(unsafe.Pointer(&a.iovec))), nr: 1}
	errno := register(fd, regBuffersUpdate, unsafe.Pointer(&a.update), unsafe.Sizeof(a.update))
	a.iovec = unix.Iovec{}
	return errno
}
