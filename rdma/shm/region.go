package shm

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"psrt/rdma"
	"psrt/rdma/invariant"
)

// region is this side's registered memory.
type region struct {
	d       *Domain
	key     uint64
	bytes   []byte
	offset  uint64 // of bytes in the file
	access  rdma.Access
	purpose string
	file    *os.File // ours, read and write
	check   invariant.CloseChecker

	mu     sync.Mutex
	closed bool
}

// regionSet is every open region by ascending address. It is replaced, never
// changed, so that Post searches it without a lock.
type regionSet []*region

// find gives the region that holds all of b.
func (s regionSet) find(b []byte) *region {
	at, n := addressOf(b), uintptr(len(b))
	i := sort.Search(len(s), func(i int) bool { return addressOf(s[i].bytes) > at })
	// Regions may overlap: look back until one holds b or none can.
	for i--; i >= 0; i-- {
		start, size := addressOf(s[i].bytes), uintptr(len(s[i].bytes))
		if at-start <= size && n <= size-(at-start) {
			return s[i]
		}
	}
	return nil
}

func (s regionSet) with(r *region) regionSet {
	set := append(append(make(regionSet, 0, len(s)+1), s...), r)
	sort.Slice(set, func(i, j int) bool { return addressOf(set[i].bytes) < addressOf(set[j].bytes) })
	return set
}

func (s regionSet) without(r *region) regionSet {
	set := make(regionSet, 0, len(s))
	for _, x := range s {
		if x != r {
			set = append(set, x)
		}
	}
	return set
}

// Register lends m to peers. m must lie in a memfd that cannot shrink.
func (d *Domain) Register(m rdma.Memory, access rdma.Access, purpose string) (rdma.Region, error) {
	b := m.Bytes()
	bad := func(why string) (rdma.Region, error) {
		return nil, fmt.Errorf("shm: register %q, %d bytes: %s: %w", purpose, len(b), why, rdma.ErrInvalid)
	}
	if len(b) == 0 {
		return bad("empty memory")
	}
	if access&^rdma.AccessAll != 0 {
		return bad(fmt.Sprintf("access %#x has unknown rights", uint8(access)))
	}
	fd, offset, ok := m.Descriptor()
	if !ok || offset < 0 {
		return bad("the memory has no file that could be passed to peers: make the arena with mem.Config.Share")
	}
	if err := checkSealed(fd); err != nil {
		return bad(err.Error())
	}
	// Our own descriptor: the arena may be closed while peers still ask.
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("shm: register %q: duplicating its descriptor: %w (see ulimit -n)", purpose, err)
	}
	r := &region{d: d, bytes: b, offset: uint64(offset), access: access, purpose: purpose,
		file: os.NewFile(uintptr(dup), purpose)}
	if err := d.addRegion(r); err != nil {
		r.file.Close()
		return nil, err
	}
	r.check.Open("shm region", purpose)
	return r, nil
}

// addRegion gives r a key that never was before: 52 random bits and the
// number of a free table entry.
func (d *Domain) addRegion(r *region) error {
	var random [8]byte
	rand.Read(random[:])
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("shm: register %q: %w", r.purpose, rdma.ErrClosed)
	}
	for range maxRegions {
		slot := d.nextEntry % maxRegions
		entry := &d.table.entries[slot]
		d.nextEntry++
		if entry.Load() != 0 {
			continue
		}
		r.key = binary.LittleEndian.Uint64(random[:])&^(maxRegions-1) | slot
		if r.key < maxRegions {
			r.key |= maxRegions // the random part must not be zero
		}
		d.byKey[r.key] = r
		set := d.regions.Load().with(r)
		d.regions.Store(&set)
		entry.Store(r.key)
		return nil
	}
	return fmt.Errorf("shm: register %q: %d regions are open, which is the limit: register larger arenas: %w", r.purpose, maxRegions, rdma.ErrInvalid)
}

func (r *region) Bytes() []byte { return r.bytes }

// Remote names the whole region. Addresses are offsets in it.
func (r *region) Remote() rdma.RemoteRange {
	return rdma.RemoteRange{Key: r.key, Len: uint64(len(r.bytes))}
}

// fenceTime bounds how long Close waits for peers that are inside the region.
const fenceTime = time.Second

// Close takes the memory back. When it returns without an error nobody
// touches the memory any more, but through a mapping given by Endpoint.Map.
func (r *region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.check.CloseOnce()
	d := r.d
	d.mu.Lock()
	delete(d.byKey, r.key)
	set := d.regions.Load().without(r)
	d.regions.Store(&set)
	d.table.entries[r.key%maxRegions].Store(0)
	endpoints, queues := d.children()
	d.mu.Unlock()

	// Our own side first: requests that still read or fill the memory.
	for _, q := range queues {
		q.Wake()
		q.guard.passed()
	}
	for _, e := range endpoints {
		e.guard.passed()
	}
	var err error
	deadline := time.Now().Add(fenceTime)
	for _, e := range endpoints {
		if !e.fencePeer(deadline) && err == nil {
			err = &rdma.Error{Op: rdma.OpWrite, Peer: e.cfg.Peer, Status: rdma.StatusRetryExceeded,
				Cause: fmt.Errorf("shm: region %q is closed: %w", r.purpose, rdma.ErrInside)}
		}
		e.revoke(r.key)
	}
	r.file.Close()
	return err
}
