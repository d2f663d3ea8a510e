package recover

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"psrt/tiers"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// spread is the odd number whose multiples are the keys: one to one, and all
// over the key space.
const spread = 0x9e3779b97f4a7c15

func keyOf(i int) uint64 { return (uint64(i) + 1) * spread }

// lanes are the tables of a server.
type lanes struct {
	c    *Config
	rows []*tiers.Memory
}

func newLanes(c *Config, tracked bool) (*lanes, error) {
	l := &lanes{c: c}
	for range c.Lanes {
		m, err := tiers.NewMemory(c.spec(), c.Seed, tiers.MemoryConfig{Node: -1, Tracked: tracked})
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.rows = append(l.rows, m)
	}
	return l, nil
}

func (l *lanes) close() error {
	var errs []error
	for _, m := range l.rows {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// each runs f for every lane at once.
func (l *lanes) each(f func(lane int, m *tiers.Memory) error) error {
	return inLanes(len(l.rows), func(lane int) error { return f(lane, l.rows[lane]) })
}

// inLanes runs f for each of n lanes at once.
func inLanes(n int, f func(lane int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// touch gives every step-th row a gradient, and makes it if it is not there.
func (l *lanes) touch(ctx context.Context, step int) error {
	return l.each(func(lane int, m *tiers.Memory) error {
		const batch = 4096
		keys, rows := make([]uint64, 0, batch), make([]uint32, batch)
		grads := make([]float32, batch*l.c.Dim)
		for i := range grads {
			grads[i] = float32(i%7) - 3
		}
		apply := func() error {
			k := tiers.Lookup{Keys: keys, Rows: rows[:len(keys)], Create: true}
			if !m.Start(&k) {
				return errors.New("recover: a table in memory waits for a disk")
			}
			if k.Err != nil {
				return k.Err
			}
			m.Apply(k.Rows, grads[:len(keys)*l.c.Dim])
			m.Release(k.Rows)
			keys = keys[:0]
			return context.Cause(ctx)
		}
		for i := 0; i < l.c.Rows; i += step {
			k := keyOf(i)
			if l.c.laneOf(k) != lane {
				continue
			}
			if keys = append(keys, k); len(keys) == batch {
				if err := apply(); err != nil {
					return err
				}
			}
		}
		return apply()
	})
}

// write cuts all lanes into a generation.
func (l *lanes) write(ctx context.Context, h *ckpt.History, o ckpt.NextOptions) (bytes int64, err error) {
	n, err := h.Begin(ctx, o)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Abort())
		}
	}()
	w, err := ckpt.WriterFor(ctx, n.Ticket())
	if err != nil {
		return 0, err
	}
	parts := make([]ckpt.Part, len(l.rows))
	err = l.each(func(lane int, m *tiers.Memory) error {
		if err := m.Cut(o.Delta); err != nil {
			return err
		}
		rw, err := w.Rows(fmt.Sprintf("lane%d", lane), l.c.spec(), l.c.covers(lane))
		if err != nil {
			return err
		}
		for more := true; more; {
			more, err = m.Next(4096, func(key uint64, row []float32, deleted bool) error {
				if deleted {
					return rw.Delete(key)
				}
				return rw.Add(key, row)
			})
			if err = errors.Join(err, context.Cause(ctx)); err != nil {
				rw.Abort()
				return err
			}
		}
		parts[lane], err = rw.Close()
		return err
	})
	if err != nil {
		return 0, err
	}
	digest, err := l.digest()
	if err != nil {
		return 0, err
	}
	done, err := n.Commit(ctx, ckpt.Manifest{Digest: digest, Slots: slots, Tables: []table.Spec{l.c.spec()}, Parts: parts})
	for _, m := range l.rows {
		// A quantised delta is for serving: what it had is still to be written.
		m.CutDone(err == nil && !o.WeightsOnly)
	}
	if err != nil {
		return 0, err
	}
	for _, p := range done.Parts {
		bytes += p.Bytes
	}
	return bytes, nil
}

// load fills the lanes from a model, each by itself.
func (l *lanes) load(ctx context.Context, m *ckpt.Model) error {
	return l.each(func(lane int, t *tiers.Memory) error {
		t.Reserve(m.RowsIn(1, l.c.covers(lane)))
		return m.Rows(ctx, 1, 1, l.c.covers(lane), func(keys []uint64, rows []float32) error {
			for _, k := range keys { // each lane wrote a part of its own
				if l.c.laneOf(k) != lane {
					return fmt.Errorf("recover: key %d is in lane %d's part", k, lane)
				}
			}
			return t.LoadRows(keys, rows)
		})
	})
}

func (l *lanes) digest() (string, error) {
	sums := make([]table.Digest, len(l.rows))
	err := l.each(func(lane int, m *tiers.Memory) (err error) {
		sums[lane], err = m.Digest()
		return err
	})
	var sum table.Digest
	for _, s := range sums {
		sum.Add(s)
	}
	return sum.String(), err
}
