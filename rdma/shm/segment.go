package shm

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// segment is a mapped piece of a memfd.
type segment struct {
	bytes  []byte // what was asked for
	mapped []byte // whole pages
}

// newSegment makes and maps a zeroed memfd that cannot be resized.
func newSegment(name string, size int) (*segment, *os.File, error) {
	fail := func(call string, err error) (*segment, *os.File, error) {
		return nil, nil, fmt.Errorf("shm: %s of %d bytes for %s: %w", call, size, name, err)
	}
	fd, err := unix.MemfdCreate("psrt-"+name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fail("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), name)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		file.Close()
		return fail("ftruncate", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		file.Close()
		return fail("sealing", err)
	}
	// All pages now: a page refused at first touch would be a SIGBUS.
	if err := unix.Fallocate(fd, 0, 0, int64(size)); err != nil {
		file.Close()
		return fail("fallocate", err)
	}
	s, err := mapSegment(file, 0, uint64(size), true)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return s, file, nil
}

// mapSegment maps [offset, offset+length) of a file that came from a peer. It
// is refused unless the range exists and can never cease to: a shrinking file
// is a SIGBUS for whoever reads it.
func mapSegment(file *os.File, offset, length uint64, writable bool) (*segment, error) {
	fd := int(file.Fd())
	if err := checkSealed(fd); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("shm: fstat of shared memory: %w", err)
	}
	if length == 0 || length > 1<<62 || st.Size < 0 || offset > uint64(st.Size) || length > uint64(st.Size)-offset {
		return nil, fmt.Errorf("shm: bytes %d to %d+%d of a file of %d bytes do not exist", offset, offset, length, st.Size)
	}
	page := pageSize(&st)
	start := offset / page * page
	whole := (offset - start + length + page - 1) / page * page
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	b, err := unix.Mmap(fd, int64(start), int(whole), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shm: mapping %d bytes of shared memory: %w", whole, err)
	}
	skip := offset - start
	return &segment{bytes: b[skip : skip+length : skip+length], mapped: b}, nil
}

// pageSize is the file's page: st_blksize says 2 MiB for huge page files,
// whose mappings must be whole pages.
func pageSize(st *unix.Stat_t) uint64 {
	if n := uint64(st.Blksize); n > 4096 && n <= 1<<30 && n&(n-1) == 0 {
		return n
	}
	return uint64(unix.Getpagesize())
}

var errUnsealed = errors.New("shm: the file can be shrunk, which would be a SIGBUS for its users: seal it with F_SEAL_SHRINK (rdma/mem with Share does)")

// checkSealed accepts only files that cannot be shrunk.
func checkSealed(fd int) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w (no memfd: %w)", errUnsealed, err)
	}
	if seals&unix.F_SEAL_SHRINK == 0 {
		return errUnsealed
	}
	return nil
}

func (s *segment) unmap() error {
	if s == nil || s.mapped == nil {
		return nil
	}
	b := s.mapped
	s.mapped, s.bytes = nil, nil
	return unix.Munmap(b)
}
