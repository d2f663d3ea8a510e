package regcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestAgainstNaive runs random scripts on the cache and on the naive one: the
// same answers, and at every moment the same registrations open.
func TestAgainstNaive(t *testing.T) {
	first := seed(t)
	for i := range uint64(300) {
		if log, err := script(first+i, 200); err != nil {
			t.Fatalf("PSRT_SEED=%d: %v\n%s", first+i, err, log)
		}
	}
}

func script(seed uint64, steps int) (log string, err error) {
	r := random(seed)
	d := &device{}
	n := &naive{pages: 8 + r.Uint64N(40), count: 1 + r.IntN(12)}
	c, err := New(Config[*memory]{Register: d.Register, MaxBytes: n.pages * page, MaxCount: n.count})
	if err != nil {
		return "", err
	}
	log = fmt.Sprintf("limits %d pages, %d registrations\n", n.pages, n.count)
	type both struct {
		real  Lease[*memory]
		naive *naiveEntry
	}
	var held []both
	for range steps {
		start := r.Uint64N(48)
		end := start + 1 + r.Uint64N(1+r.Uint64N(16))
		switch op := r.IntN(10); {
		case op < 5:
			refused := r.IntN(8) == 0
			log += fmt.Sprintf("get %d+%d refused=%t\n", start, end-start, refused)
			d.refuse = func(uint64) bool { return refused }
			// Unaligned ends must round outward to the same pages.
			cut := r.Uint64N(page / 2)
			l, err := c.Get(start*page+cut, (end-start)*page-2*cut)
			e, full := n.get(start, end, refused)
			var fullErr *FullError
			if errors.As(err, &fullErr) != full || (err == nil) != (e != nil) || err != nil && !full && !errors.Is(err, errRefused) {
				return log, fmt.Errorf("got %v, naive got %+v, full %t", err, e, full)
			}
			if err == nil {
				if l.Addr() != e.start*page || l.Bytes() != (e.end-e.start)*page {
					return log, fmt.Errorf("got %v, naive %+v", l.Handle, e)
				}
				held = append(held, both{l, e})
			}
		case op < 9 && len(held) > 0:
			i := r.IntN(len(held))
			log += fmt.Sprintf("release %v\n", held[i].real.Handle)
			held[i].real.Release()
			held[i].real.Release()
			n.release(held[i].naive)
			held = slices.Delete(held, i, i+1)
		default:
			log += fmt.Sprintf("invalidate %d+%d\n", start, end-start)
			busy, err := c.Invalidate(start*page, (end-start)*page)
			if want := n.invalidate(start, end); err != nil || busy != want {
				return log, fmt.Errorf("%d busy, %v, naive %d", busy, err, want)
			}
		}
		if err := same(c, d, n, len(held)); err != nil {
			return log, err
		}
	}
	for i := range held {
		held[i].real.Release()
	}
	if err := c.Close(context.Background()); err != nil || len(d.live) > 0 || d.double > 0 || d.made != d.closed {
		return log, fmt.Errorf("after Close: %v, %d of %d open, %d closed twice", err, len(d.live), d.made, d.double)
	}
	return log, nil
}

func same(c *Cache[*memory], d *device, n *naive, leases int) error {
	var got, want []string
	for m := range d.live {
		got = append(got, m.String())
	}
	for _, e := range n.list {
		want = append(want, fmt.Sprintf("%d+%d", e.start, e.end-e.start))
	}
	slices.Sort(got)
	slices.Sort(want)
	s := c.Stats()
	if !slices.Equal(got, want) || d.made != n.registered {
		return fmt.Errorf("open %v of %d made, naive %v of %d", got, d.made, want, n.registered)
	}
	if s.Count != len(want) || s.Bytes != n.sum()*page || s.Leases != leases {
		return fmt.Errorf("stats %+v; naive has %d, %d pages, %d leases", s, len(want), n.sum(), leases)
	}
	if s.Count > n.count || s.Bytes > n.pages*page {
		return fmt.Errorf("stats %+v beyond %d pages and %d", s, n.pages, n.count)
	}
	return nil
}
