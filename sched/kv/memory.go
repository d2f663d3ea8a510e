package kv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/tiers/table"
)

// Memory is a range that servers may read and write: the caller's, or an arena
// that the client allocated.
type Memory struct {
	first, last uint64 // addresses, last exclusive
	bytes       []byte
	arena       *mem.Arena // nil for the caller's own
	device      bool       // no CPU may touch the bytes
	lent        *client.Memory
	uses        atomic.Int64 // requests that name it
}

func (m *Memory) unuse() { m.uses.Add(-1) }

// InUse says whether a request names the memory, one that was given up, too: a
// server may yet touch it.
func (m *Memory) InUse() bool { return m.uses.Load() > 0 }

// Bytes is the memory.
func (m *Memory) Bytes() []byte { return m.bytes }

// memories are a client's, by address; they do not overlap.
type memories struct {
	any  atomic.Bool // there may be some: most clients have none
	mu   sync.RWMutex
	list []*Memory
}

// foreign is the caller's memory as a transport sees it: no file is behind it.
type foreign []byte

func (f foreign) Bytes() []byte                  { return f }
func (f foreign) Descriptor() (int, int64, bool) { return -1, 0, false }
func (f foreign) NUMANode() int                  { return -1 }

// Alloc gives zeroed memory that servers reach over every transport.
func (c *Client) Alloc(n int) (*Memory, error) {
	if n < 1 {
		return nil, errorf(Invalid, "kv: memory of %d bytes, want 1 or more", n)
	}
	a, err := mem.New(mem.Config{Size: n, Node: -1, Purpose: "trainer's memory", Share: true, Prefault: true})
	if err != nil {
		return nil, coded(err, NoMemory)
	}
	m, err := c.lend(a.Bytes(), a)
	if err != nil {
		a.Close()
		return nil, err
	}
	m.arena = a
	return m, nil
}

// Register lends the caller's memory, which must not be Go heap and stays mapped
// until Unregister.
func (c *Client) Register(b []byte) (*Memory, error) {
	if len(b) == 0 {
		return nil, errorf(Invalid, "kv: memory of 0 bytes cannot be registered")
	}
	if mem.Address(b)%4 != 0 {
		return nil, errorf(Invalid, "kv: memory at %#x cannot be registered: it must be aligned to 4 bytes", mem.Address(b))
	}
	return c.lend(b, foreign(b))
}

// ErrNotDirect marks a call with memory of a device where rows of it cannot go between
// that and the servers without a copy: nothing was sent, nothing was touched.
var ErrNotDirect = errors.New("kv: servers do not reach that memory for this call")

func notDirect(format string, args ...any) error {
	return &Error{Invalid, fmt.Errorf("%w: "+format, append([]any{ErrNotDirect}, args...)...)}
}

// LendDevice lends memory of a device, which every server must reach by RDMA; else it is
// ErrNotDirect. Calls with such memory are ErrNotDirect where it would take a CPU to carry them out: pulls of
// keys that are not as Plan gives them, pushes of tables with a lifecycle or under bsp.
func (c *Client) LendDevice(m rdma.DeviceMemory) (*Memory, error) {
	if c.job.Chains != nil {
		return nil, notDirect("the job has replicas, whose servers come to be elsewhere")
	}
	if c.c.Looks() {
		return nil, notDirect("this client compresses gradients or records what it sends")
	}
	return c.lend(m.Bytes(), m)
}

func (c *Client) lend(b []byte, what rdma.Memory) (*Memory, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	m := &Memory{first: mem.Address(b), last: mem.Address(b) + uint64(len(b)), bytes: b}
	l := &c.memory
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.list, m.first, byAddress)
	for _, i := range []int{at - 1, at} {
		if i >= 0 && i < len(l.list) && l.list[i].first < m.last && m.first < l.list[i].last {
			return nil, errorf(Invalid, "kv: memory [%#x, %#x) overlaps [%#x, %#x), which is registered; unregister that first", m.first, m.last, l.list[i].first, l.list[i].last)
		}
	}
	_, m.device = what.(rdma.DeviceMemory)
	c.mu.Lock()
	m.lent = c.c.Lend(what, "trainer's memory")
	var err error
	switch {
	case c.c.Direct(m.lent): // else it would be for nothing, as things are
		err = m.lent.Register()
	case m.device:
		err = notDirect("not all servers are reached by RDMA; `transport: verbs` in the configuration, or another host, has them so")
	}
	c.mu.Unlock()
	if err != nil {
		m.lent.Close()
		if errors.Is(err, ErrNotDirect) {
			return nil, err
		}
		return nil, coded(err, NoMemory)
	}
	l.list = slices.Insert(l.list, at, m)
	l.any.Store(true)
	return m, nil
}

func byAddress(m *Memory, first uint64) int { return cmp.Compare(m.first, first) }

// Unregister ends what Register or Alloc began: when it succeeds no server reaches
// the memory.
func (c *Client) Unregister(m *Memory) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	l := &c.memory
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.list, m)
	if i < 0 {
		return errorf(Invalid, "kv: that memory is not registered")
	}
	if n := m.uses.Load(); n > 0 {
		return errorf(Busy, "kv: %d requests use the memory at %#x; wait for them first", n, m.first)
	}
	l.list = slices.Delete(l.list, i, i+1)
	c.mu.Lock()
	m.lent.Close()
	c.mu.Unlock()
	if m.arena != nil {
		m.arena.Close()
	}
	return nil
}

// MemoryAt is the registered memory that begins at an address, nil if there is
// none; allocated tells which kind.
func (c *Client) MemoryAt(address uint64) (m *Memory, allocated bool) {
	l := &c.memory
	l.mu.RLock()
	defer l.mu.RUnlock()
	if i, ok := slices.BinarySearchFunc(l.list, address, byAddress); ok {
		return l.list[i], l.list[i].arena != nil
	}
	return nil, false
}

// IsDirect tells whether all servers reach n bytes at an address themselves.
func (c *Client) IsDirect(address, n uint64) bool {
	l := &c.memory
	l.mu.RLock()
	defer l.mu.RUnlock()
	m := l.around(address)
	return m != nil && c.reached(m) && n <= m.last-address
}

// reached says whether all servers reach the memory themselves now: in a job with
// replicas groups move between hosts.
func (c *Client) reached(m *Memory) bool {
	if m.lent.Shares() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.c.Direct(m.lent)
}

// CheckRange refuses n bytes that begin in registered memory and end outside.
func (c *Client) CheckRange(address, n uint64) error {
	l := &c.memory
	if !l.any.Load() {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	m := l.around(address)
	if m != nil && m.device {
		return errorf(Invalid, "kv: %#x is memory of a GPU: say so by PSRT_DEVICE in options.flags", address)
	}
	if m != nil && n > m.last-address {
		return errorf(Invalid, "kv: %d bytes at %#x leave the registered memory, which ends %d bytes on", n, address, m.last-address)
	}
	return nil
}

// around finds the memory that holds an address. With mu.
func (l *memories) around(address uint64) *Memory {
	i, ok := slices.BinarySearchFunc(l.list, address, byAddress)
	if !ok {
		i--
	}
	if i < 0 || address >= l.list[i].last {
		return nil
	}
	return l.list[i]
}

// find gives the memory in which a matrix lies whole, and where in it, where all
// servers reach it; the caller unuses it.
func (c *Client) find(matrix []float32) (*Memory, int) {
	l := &c.memory
	if !l.any.Load() || len(matrix) == 0 {
		return nil, 0
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	first := mem.Address(mem.Bytes(matrix))
	m := l.around(first)
	if m == nil || !c.reached(m) || uint64(len(matrix))*4 > m.last-first {
		return nil, 0
	}
	m.uses.Add(1)
	return m, int(first - m.first)
}

// ofDevice says whether a matrix lies in lent memory that no CPU may touch.
func (c *Client) ofDevice(matrix []float32) bool {
	l := &c.memory
	if !l.any.Load() || len(matrix) == 0 {
		return false
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	m := l.around(mem.Address(mem.Bytes(matrix)))
	return m != nil && m.device
}

// sendable says why gradients of a call cannot be fetched by the servers from where they
// are, which is the case in a device's memory only. spec is nil for the dense vector.
func (c *Client) sendable(grads []float32, spec *table.Spec) error {
	switch {
	case !c.ofDevice(grads):
		return nil
	case c.job.Staleness == 0:
		return notDirect("under bsp gradients are added up at the worker until its step ends")
	case spec != nil && spec.Lifecycle != nil:
		return notDirect("table %q has a lifecycle, whose counts go along with gradients", spec.Name)
	}
	return nil
}

func (l *memories) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.list {
		m.lent.Close()
		if m.arena != nil {
			m.arena.Close()
		}
	}
	l.list = nil
}
