package mem

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// mapping is a range of address space and, if shared, the file behind it.
type mapping struct {
	bytes []byte
	file  *os.File // nil for anonymous memory
}

// newMapping maps size bytes, a multiple of the kind's page. Transparent huge
// pages need an address that is a multiple of theirs: the range is taken with
// room to spare and trimmed.
func newMapping(cfg *Config, kind PageKind, size int) (mapping, error) {
	m := mapping{}
	fd, flags := -1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS
	if cfg.Share {
		var err error
		if m.file, err = newFile(cfg.Purpose, kind, size); err != nil {
			return mapping{}, refused(cfg.Purpose, size, feature.Root(cfg.Root), "memfd_create", err)
		}
		fd, flags = int(m.file.Fd()), unix.MAP_SHARED
	} else if kind == HugePages {
		flags |= unix.MAP_HUGETLB | unix.MAP_HUGE_2MB
	}
	b, err := mapAligned(fd, flags, size, kind == TransparentPages)
	if err != nil {
		m.unmap()
		return mapping{}, refused(cfg.Purpose, size, feature.Root(cfg.Root), "mmap", err)
	}
	m.bytes = b
	switch {
	case kind == TransparentPages:
		err = unix.Madvise(b, unix.MADV_HUGEPAGE)
	case cfg.Huge == "never":
		// A kernel without transparent huge pages refuses this with EINVAL.
		if err = unix.Madvise(b, unix.MADV_NOHUGEPAGE); errors.Is(err, unix.EINVAL) {
			err = nil
		}
	}
	if err != nil {
		m.unmap()
		return mapping{}, fmt.Errorf("mem: arena %q: madvise for %s: %w", cfg.Purpose, kind, err)
	}
	return m, nil
}

// mapAligned maps size bytes, at a multiple of the huge page if asked.
func mapAligned(fd, flags, size int, huge bool) ([]byte, error) {
	const prot = unix.PROT_READ | unix.PROT_WRITE
	if !huge {
		p, err := unix.MmapPtr(fd, 0, nil, uintptr(size), prot, flags)
		if err != nil {
			return nil, err
		}
		return unsafe.Slice((*byte)(p), size), nil
	}
	room := size + feature.HugePageBytes
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(room), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	before := roundUp(int(uintptr(p)), feature.HugePageBytes) - int(uintptr(p))
	start := unsafe.Add(p, before)
	if _, err := unix.MmapPtr(fd, 0, start, uintptr(size), prot, flags|unix.MAP_FIXED); err != nil {
		unix.MunmapPtr(p, uintptr(room))
		return nil, err
	}
	if before > 0 {
		unix.MunmapPtr(p, uintptr(before))
	}
	if after := room - before - size; after > 0 {
		unix.MunmapPtr(unsafe.Add(start, size), uintptr(after))
	}
	return unsafe.Slice((*byte)(start), size), nil
}

// newFile makes a memfd of size bytes that nobody can resize any more: a peer
// that maps it cannot be made to read beyond its end (SIGBUS).
func newFile(purpose string, kind PageKind, size int) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if kind == HugePages {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	name := "psrt-" + purpose
	if len(name) > 200 { // the kernel's limit is 249 bytes
		name = name[:200]
	}
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// renew maps a new file with the same bytes over the old one, on node as far as it may.
func (m *mapping) renew(purpose string, kind PageKind, node int) error {
	size, root := len(m.bytes), feature.Root("")
	file, err := newFile(purpose, kind, size)
	if err != nil {
		return refused(purpose, size, root, "memfd_create", err)
	}
	fd := int(file.Fd())
	fresh, err := mapAligned(fd, unix.MAP_SHARED, size, false)
	if err == nil {
		if node >= 0 {
			_ = feature.MBind(fresh, node) // pages far away are no reason to fail
		}
		if err = populate(fresh); err == nil {
			copy(fresh, m.bytes)
			_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(&m.bytes[0]), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
		}
		err = errors.Join(err, unix.MunmapPtr(unsafe.Pointer(&fresh[0]), uintptr(size)))
	}
	if err != nil {
		file.Close()
		return refused(purpose, size, root, "mapping it anew", err)
	}
	if kind == TransparentPages {
		_ = unix.Madvise(m.bytes, unix.MADV_HUGEPAGE) // slower pages are no reason to fail
	}
	m.file.Close()
	m.file = file
	return nil
}

func (m *mapping) unmap() error {
	var err error
	if m.bytes != nil {
		err = unix.MunmapPtr(unsafe.Pointer(&m.bytes[0]), uintptr(len(m.bytes)))
		m.bytes = nil
	}
	if m.file != nil {
		err = errors.Join(err, m.file.Close())
		m.file = nil
	}
	return err
}

// populate takes every page now. The kernel's own way reports a page it
// cannot give as an error; before Linux 5.14 the pages are touched one by one.
func populate(b []byte) error {
	err := unix.Madvise(b, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		for i := 0; i < len(b); i += 4096 {
			b[i] = 0
		}
		return nil
	}
	return err
}

// refused turns the kernel's refusal of memory into a NoMemoryError with the
// figures at this moment; other errors keep their cause.
func refused(purpose string, size int, root feature.Root, call string, err error) error {
	if !errors.Is(err, unix.ENOMEM) && !errors.Is(err, unix.EFAULT) && !errors.Is(err, unix.EHWPOISON) && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("mem: arena %q of %d bytes: %s: %w", purpose, size, call, err)
	}
	e := &NoMemoryError{Purpose: purpose, Needed: int64(size),
		By:     fmt.Sprintf("the kernel (%s: %v)", call, err),
		Remedy: "ask for less; see ulimit -v, vm.overcommit_memory and vm.max_map_count"}
	if limits, lerr := root.MemoryLimits(); lerr == nil {
		least := feature.Tightest(limits)
		e.Allowed, e.By = least.Bytes, e.By+" and "+least.Source
	}
	return e
}
