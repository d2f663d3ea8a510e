package regcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

const page = 4096

var errRefused = errors.New("refused")

// device counts what is registered, as a kernel would.
type device struct {
	mu           sync.Mutex
	live         map[*memory]bool
	bytes, peak  uint64
	peakCount    int
	made, closed int
	double       int                    // closes of what was not open
	refuse       func(addr uint64) bool // may be nil
	before       func()                 // called in Register, may be nil
	closeErr     error
}

type memory struct {
	d           *device
	addr, bytes uint64
}

func (d *device) Register(addr, length uint64) (*memory, error) {
	if d.before != nil {
		d.before()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refuse != nil && d.refuse(addr) {
		return nil, errRefused
	}
	if d.live == nil {
		d.live = map[*memory]bool{}
	}
	m := &memory{d, addr, length}
	d.live[m] = true
	d.made++
	d.bytes += length
	d.peak, d.peakCount = max(d.peak, d.bytes), max(d.peakCount, len(d.live))
	return m, nil
}

func (m *memory) Close() error {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if !m.d.live[m] {
		m.d.double++
		return nil
	}
	delete(m.d.live, m)
	m.d.closed++
	m.d.bytes -= m.bytes
	return m.d.closeErr
}

func (m *memory) open() bool {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	return m.d.live[m]
}

func (m *memory) String() string { return fmt.Sprintf("%d+%d", m.addr/page, m.bytes/page) }

func newCache(t *testing.T, d *device, pages uint64, count int) *Cache[*memory] {
	t.Helper()
	c, err := New(Config[*memory]{Register: d.Register, MaxBytes: pages * page, MaxCount: count})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get leases pages or fails the test.
func get(t *testing.T, c *Cache[*memory], first, pages uint64) Lease[*memory] {
	t.Helper()
	l, err := c.Get(first*page, pages*page)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// seed is the run's, or PSRT_SEED.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("PSRT_SEED"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s = n
	}
	t.Logf("PSRT_SEED=%d", s)
	return s
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
