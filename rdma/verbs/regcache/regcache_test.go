package regcache

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestSmallerInsideGoes(t *testing.T) {
	d := &device{}
	c := newCache(t, d, 32, 8)
	idle, leased := get(t, c, 2, 1), get(t, c, 4, 1)
	idle.Release()
	large := get(t, c, 0, 8)
	if idle.Handle.open() || !leased.Handle.open() {
		t.Error("the idle one must be closed, the leased one not")
	}
	again := get(t, c, 4, 1)
	if again.Handle != large.Handle {
		t.Errorf("leased %v, want the larger one", again.Handle)
	}
	leased.Release()
	if leased.Handle.open() || c.Stats().Stale != 0 {
		t.Error("the smaller one must go with its last lease")
	}
	again.Release()
	large.Release()
}

func TestEvictsLeastRecentlyLeased(t *testing.T) {
	d := &device{}
	c := newCache(t, d, 32, 3)
	var leases []Lease[*memory]
	for i := range uint64(3) {
		leases = append(leases, get(t, c, i*4, 1))
	}
	for _, i := range []int{1, 0, 2} {
		leases[i].Release()
	}
	one := get(t, c, 4, 1) // leased again: now 0 is the oldest
	fresh := get(t, c, 20, 1)
	if leases[0].Handle.open() || !leases[1].Handle.open() || !leases[2].Handle.open() {
		t.Error("want 0 evicted")
	}
	one.Release()
	fresh.Release()
}

func TestFull(t *testing.T) {
	c := newCache(t, &device{}, 4, 8)
	l := get(t, c, 0, 3)
	_, err := c.Get(8*page, 2*page)
	var full *FullError
	if !errors.As(err, &full) || full.Need != 2*page || full.Busy != 3*page || full.MaxBytes != 4*page ||
		!strings.Contains(err.Error(), "raise the limits") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Get(8*page, 5*page); !errors.As(err, &full) {
		t.Errorf("larger than the limit: %v", err)
	}
	l.Release()
	again := get(t, c, 8, 2)
	again.Release()
}

func TestCloseErrorIsKept(t *testing.T) {
	d := &device{closeErr: errRefused}
	c := newCache(t, d, 4, 1)
	for i := range uint64(3) {
		l := get(t, c, 8*i, 1)
		l.Release()
	}
	err := c.Close(t.Context())
	var leaked *CloseError
	if !errors.As(err, &leaked) || !errors.Is(err, errRefused) || leaked.Addr != 0 {
		t.Errorf("got %v", err)
	}
}

func TestInvalid(t *testing.T) {
	c := newCache(t, &device{}, 4, 1)
	for _, r := range [][2]uint64{{0, 0}, {page, math.MaxUint64}, {math.MaxUint64 - 1, 1}, {math.MaxUint64 - page, page}, {1, math.MaxUint64}} {
		if _, err := c.Get(r[0], r[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("Get %x: %v", r, err)
		}
		if _, err := c.Invalidate(r[0], r[1]); !errors.Is(err, ErrInvalid) {
			t.Errorf("Invalidate %x: %v", r, err)
		}
	}
	good := Config[*memory]{Register: (&device{}).Register, MaxBytes: page, MaxCount: 1}
	for name, spoil := range map[string]func(*Config[*memory]){
		"register": func(c *Config[*memory]) { c.Register = nil },
		"pages":    func(c *Config[*memory]) { c.PageBytes = 3000 },
		"bytes":    func(c *Config[*memory]) { c.MaxBytes = page - 1 },
		"count":    func(c *Config[*memory]) { c.MaxCount = 0 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHitAllocatesNothing(t *testing.T) {
	c := newCache(t, &device{}, 64, 32)
	for i := range uint64(16) {
		l := get(t, c, i*3, 2)
		l.Release()
	}
	if n := testing.AllocsPerRun(100, func() {
		l, err := c.Get(9*page+5, page)
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHit(b *testing.B) {
	d := &device{}
	c, err := New(Config[*memory]{Register: d.Register, MaxBytes: 1 << 30, MaxCount: 2000})
	if err != nil {
		b.Fatal(err)
	}
	for i := range uint64(1000) {
		l, err := c.Get(i*3*page, page)
		if err != nil {
			b.Fatal(err)
		}
		l.Release()
	}
	for b.Loop() {
		l, _ := c.Get(999*page, page)
		l.Release()
	}
}
