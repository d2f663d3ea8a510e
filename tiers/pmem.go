package tiers

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pmem is an arena in a file on a byte-addressable device: memory that is
// larger or cheaper than the machine's, and only that. What it holds does not
// outlive the process: the file has no name as soon as it is open.
type pmem struct {
	path  string
	bytes []byte
	used  int
}

func openPmem(dir, table string, size int64) (*pmem, error) {
	file, err := os.CreateTemp(dir, "psrt-pmem-*")
	if err != nil {
		return nil, fmt.Errorf("tiers: table %q: a file on the byte-addressable device: %w", table, err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	// Room is taken now: a page that cannot be had later would be a SIGBUS.
	if err := unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		return nil, fmt.Errorf("tiers: table %q: %d bytes on the device of %s: %w; give it less memory or another directory", table, size, dir, err)
	}
	b, err := unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("tiers: table %q: mapping %d bytes in %s: %w", table, size, dir, err)
	}
	return &pmem{path: dir, bytes: b}, nil
}

// Alloc gives n bytes that are 0.
func (p *pmem) Alloc(n, align int) ([]byte, error) {
	at := (p.used + align - 1) / align * align
	if n > len(p.bytes)-at {
		return nil, fmt.Errorf("tiers: %d bytes more of the mapping in %s, %d of %d are taken", n, p.path, p.used, len(p.bytes))
	}
	p.used = at + n
	return p.bytes[at:p.used:p.used], nil
}

// Close unmaps the file.
func (p *pmem) Close() error {
	b := p.bytes
	p.bytes = nil
	if b == nil {
		return nil
	}
	return unix.Munmap(b)
}

func (p *pmem) String() string { return fmt.Sprintf("%d bytes mapped in %s", len(p.bytes), p.path) }
