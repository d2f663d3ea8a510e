package tcp

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"psrt/rdma"
)

// remoteBase is the address of every region's first byte as peers see it: a
// page, so that alignment of offsets is alignment of addresses, and not the
// real address, which is nobody's business.
const remoteBase = 1 << 12

type region struct {
	dom     *Domain
	bytes   []byte
	start   uintptr // of bytes, to find the region of a Local buffer
	key     uint64
	access  rdma.Access
	purpose string
	closed  bool // guarded by dom.placing
}

// regionSet is immutable; Domain swaps whole sets.
type regionSet struct {
	byKey   map[uint64]*region
	byStart []*region
}

func (s *regionSet) with(r *region) *regionSet {
	n := &regionSet{byKey: make(map[uint64]*region, len(s.byKey)+1), byStart: slices.Clone(s.byStart)}
	for k, v := range s.byKey {
		n.byKey[k] = v
	}
	n.byKey[r.key] = r
	at, _ := slices.BinarySearchFunc(n.byStart, r, func(a, b *region) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	n.byStart = slices.Insert(n.byStart, at, r)
	return n
}

func (s *regionSet) without(r *region) *regionSet {
	n := &regionSet{byKey: make(map[uint64]*region, len(s.byKey))}
	for k, v := range s.byKey {
		if v != r {
			n.byKey[k] = v
		}
	}
	for _, v := range s.byStart {
		if v != r {
			n.byStart = append(n.byStart, v)
		}
	}
	return n
}

// local finds a region around b; regions may overlap, so it walks down from
// the last one that starts at or before b.
func (s *regionSet) local(b []byte) *region {
	start := addressOf(b)
	lo, hi := 0, len(s.byStart)
	for lo < hi {
		if mid := (lo + hi) / 2; s.byStart[mid].start <= start {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	for i := lo - 1; i >= 0; i-- {
		if s.byStart[i].holds(start, len(b)) {
			return s.byStart[i]
		}
	}
	return nil
}

func (r *region) holds(start uintptr, n int) bool {
	return start >= r.start && start-r.start <= uintptr(len(r.bytes)) && uintptr(n) <= uintptr(len(r.bytes))-(start-r.start)
}

// remote gives the n bytes a peer asks for, or nil when range or right is wrong.
func (s *regionSet) remote(key, addr, n uint64, need rdma.Access) (*region, []byte) {
	r := s.byKey[key]
	if r == nil || r.access&need != need || addr < remoteBase {
		return nil, nil
	}
	size := uint64(len(r.bytes))
	at := addr - remoteBase
	if at > size || n > size-at {
		return nil, nil
	}
	return r, r.bytes[at : at+n : at+n]
}

func (r *region) Bytes() []byte { return r.bytes }

func (r *region) Remote() rdma.RemoteRange {
	return rdma.RemoteRange{Key: r.key, Addr: remoteBase, Len: uint64(len(r.bytes))}
}

// Close returns when no goroutine of the domain touches the memory any more.
func (r *region) Close() error {
	if r.dom.dropRegion(r) {
		r.dom.placing.Lock()
		r.closed = true
		r.dom.placing.Unlock()
	}
	return nil
}

// Register lends m to peers; any memory will do.
func (d *Domain) Register(m rdma.Memory, access rdma.Access, purpose string) (rdma.Region, error) {
	b := m.Bytes()
	if len(b) == 0 {
		return nil, fmt.Errorf("tcp: register %q: no bytes: %w", purpose, rdma.ErrInvalid)
	}
	if access&^rdma.AccessAll != 0 {
		return nil, fmt.Errorf("tcp: register %q: unknown access bits %#x: %w", purpose, access&^rdma.AccessAll, rdma.ErrInvalid)
	}
	r := &region{dom: d, bytes: b, start: addressOf(b), access: access, purpose: purpose}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("tcp: register %q: %w", purpose, rdma.ErrClosed)
	}
	set := d.regions.Load()
	for r.key == 0 || set.byKey[r.key] != nil {
		r.key = rand.Uint64() // ChaCha8 seeded by the kernel: a key cannot be guessed
	}
	d.regions.Store(set.with(r))
	d.stats.liveRegions.Add(1)
	return r, nil
}

func (d *Domain) dropRegion(r *region) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := d.regions.Load()
	if set.byKey[r.key] != r {
		return false
	}
	d.regions.Store(set.without(r))
	d.stats.liveRegions.Add(-1)
	return true
}
