package hbm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	nccl "psrt/nccl/gpu"
	"psrt/nccl/ring"
	"psrt/rdma/dial"
	"psrt/sched/spread"
	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
	"psrt/tiers/table"
)

// cards are those of a host, or as many twins, among which a table's rows are spread:
// each has a rank, and all ranks are this process's.
type cards struct {
	rows  int // of a step, each at one rank
	dim   int
	steps int
	ranks []*rank
	ends  []func() error // in the order in which they were made
}

type rank struct {
	table *spread.Table
	keys  []uint64
	dst   []float32
	grads []float32
}

// patience bounds whatever ranks wait for each other for.
const patience = time.Minute

// newCards has n of c.Cards: all, or one to compare with, which has as many rows a step.
func newCards(ctx context.Context, c *Config, n int) (_ *cards, err error) {
	w := &cards{rows: max(16*c.Cards, min(stepRows, c.Rows/stepShare)/c.Cards*c.Cards), dim: c.Dim}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	speeds := make([]float64, n)
	for i := range speeds {
		speeds[i] = 1
	}
	if c.Device == DeviceGPU && n > 1 {
		if speeds, err = gpu.Speeds(c.Library, n); err != nil {
			return w, err
		}
	}
	shares, err := spread.Shares(speeds)
	if err != nil {
		return w, err
	}
	members, addrs := make([]*ring.Member, n), make([]string, n)
	for i := range members {
		h, err := dial.New(dial.Config{Transport: "shm", Token: []byte("ranks of one process that measures itself")})
		if err != nil {
			return w, err
		}
		w.ends = append(w.ends, h.Close)
		if members[i], err = ring.Listen(h, "127.0.0.1:0", "psbench", ring.Options{Timeout: patience, Node: -1}); err != nil {
			return w, err
		}
		w.ends = append(w.ends, members[i].Close)
		addrs[i] = members[i].Addr()
	}
	w.ranks = make([]*rank, n)
	var mu sync.Mutex
	later := func(end func() error) {
		mu.Lock()
		defer mu.Unlock()
		w.ends = append(w.ends, end)
	}
	return w, w.together(func(i int) error {
		control, err := members[i].Join(ctx, ring.Place{Rank: i, Size: n, Epoch: 1}, func(_ context.Context, r int) (string, error) { return addrs[r], nil })
		if err != nil {
			return err
		}
		later(control.Close)
		cfg := spread.Config{Group: control, Map: shares, BatchRows: w.rows / n, Within: patience, Node: -1}
		if c.Device == DeviceGPU && n > 1 {
			g, err := nccl.Join(ctx, control, nccl.Options{Timeout: patience, Machine: "this", CUDA: c.Library, NCCL: c.NCCL})
			if err != nil {
				return err
			}
			later(g.Close)
			cfg.Group = g
		}
		if cfg.Rows, err = cardRows(c, i, w.rows); err != nil {
			return err
		}
		later(cfg.Rows.Close)
		t, err := spread.New(cfg)
		if err != nil {
			return err
		}
		later(t.Close)
		w.ranks[i] = &rank{table: t, keys: make([]uint64, w.rows/n), dst: make([]float32, w.rows/n*c.Dim), grads: make([]float32, w.rows/n*c.Dim)}
		return nil
	})
}

// cardRows is a card's part of the table, with room for all of it.
func cardRows(c *Config, index, rows int) (tiers.Rows, error) {
	spec := table.Spec{Name: "spread", ID: 3, Dim: c.Dim, Optimizer: table.Optimizer{Kind: table.AdaGrad}}
	device, err := c.device(index)
	if err != nil {
		return nil, err
	}
	below, err := tiers.NewMemory(spec, c.Seed, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		return nil, err
	}
	room := int64(spreadBatches*rows) * int64(2*spec.RowBytes()+64)
	cache, err := hbm.New(below, hbm.Config{Device: device, MaxBytes: room, BatchRows: rows, Node: -1})
	if err != nil {
		return nil, errors.Join(err, below.Close())
	}
	return cache, nil
}

// spreadBatches is how many steps there are of other rows.
const spreadBatches = 8

func (w *cards) together(do func(i int) error) error {
	errs := make([]error, len(w.ranks))
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// step is one, at all ranks: the same rows and gradients for any number of them.
func (w *cards) step() error {
	first := w.steps % spreadBatches * w.rows
	w.steps++
	return w.together(func(i int) error {
		r := w.ranks[i]
		for k := range r.keys {
			id := uint32(first + i*len(r.keys) + k)
			r.keys[k] = keyOf(id)
			for j := range w.dim {
				r.grads[k*w.dim+j] = float32((int(id)+j+w.steps)%13) * 0.01
			}
		}
		b, err := r.table.Pull(r.keys, r.dst, w.dim, true)
		if err != nil {
			return err
		}
		defer r.table.Release(b)
		refused, err := r.table.Push(b, r.grads)
		if err == nil && refused > 0 {
			err = fmt.Errorf("hbm: %d updates of a step were refused", refused)
		}
		return err
	})
}

// round takes some steps.
func (w *cards) round() (s float64, err error) {
	s, _ = timed(func() {
		for range stepsARound {
			if err = w.step(); err != nil {
				return
			}
		}
	})
	return s, err
}

func (w *cards) digest() (d table.Digest, err error) {
	all := make([]table.Digest, len(w.ranks))
	err = w.together(func(i int) (err error) {
		all[i], err = w.ranks[i].table.Digest()
		return err
	})
	return all[0], err
}

func (w *cards) close() (err error) {
	for i := len(w.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, w.ends[i]())
	}
	return err
}

// sameDigest holds the rows on many cards against those on one, after as many steps.
func sameDigest(many, one *cards) error {
	for _, w := range []*cards{many, one} {
		for w.steps < max(many.steps, one.steps) {
			if err := w.step(); err != nil {
				return err
			}
		}
	}
	got, err := many.digest()
	if err != nil {
		return err
	}
	want, err := one.digest()
	if err == nil && got != want {
		err = fmt.Errorf("hbm: the rows on %d cards have digest %s, on one card %s", len(many.ranks), got, want)
	}
	return err
}
