package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/sched/clock"
	"psrt/sched/coord"
	"psrt/sched/heter"
	"psrt/sched/stall"
	"psrt/sched/train/metric"
)

// halved is a worker's end of a job with dense ranks: it computes the sparse half of each
// leaf, sends what the dense half needs to the rank that has the leaf, and goes on with
// the gradients that come back.
type halved struct {
	w      *worker
	hub    *heter.Hub
	to     []*heter.Link // by leaf of this worker
	slots  int
	sums   [][]float32 // by slot and leaf: what Look keeps for Spread
	looked chan int    // leaves whose activations lie in their Room
	gate   *stall.Gate
	said   map[int]denseReport // of those that have left

	busy, wait time.Duration
}

func newHalved(w *worker) *halved {
	if w.job.Heter == 0 {
		return nil
	}
	leaves := w.share.Last - w.share.First
	a := &halved{w: w, to: make([]*heter.Link, leaves), slots: w.job.linkSlots(), looked: make(chan int, leaves), said: map[int]denseReport{}}
	a.sums = make([][]float32, a.slots*leaves)
	return a
}

// begin links this worker to the dense ranks that have some of its leaves.
func (a *halved) begin(ctx context.Context) error {
	if a == nil {
		return nil
	}
	w := a.w
	ctx, cancel := context.WithTimeout(ctx, w.rank.timeout())
	defer cancel()
	depth := 0
	shapes := map[int]heter.Shape{}
	for dense := range w.job.Heter {
		s, some, err := w.job.linkShape(w.model, w.rank.Index, dense)
		if err != nil {
			return err
		}
		if some {
			shapes[dense] = s
			depth += s.Depth()
		}
	}
	opt := w.job.hubOptions(w.rank, "dense rank")
	if opt.Again != nil {
		a.reach(opt.Again)
	}
	a.hub = heter.New(w.rank.Host, depth, opt)
	a.gate = w.rank.Stall.GateFor(stall.Barrier, "the dense ranks", "the gradients of activations")
	for dense, s := range shapes {
		if gone, err := a.gone(ctx, dense); err != nil {
			return err
		} else if gone {
			continue
		}
		end := w.rank.Stall.Begin(stall.Absent, fmt.Sprintf("dense rank %d", dense), "to say where it listens", nil)
		addr, err := coord.Await(ctx, w.rank.Coord, denseKey(dense))
		end()
		if err != nil {
			return fmt.Errorf("train: waiting for dense rank %d to listen: %w", dense, err)
		}
		l, err := a.hub.Dial(ctx, string(addr), w.rank.Index, dense, s)
		if err != nil {
			return err
		}
		for leaf := s.First; leaf < s.Last; leaf++ {
			a.to[leaf-w.share.First] = l
		}
	}
	return nil
}

// reach says how links are made again: to the newest process of a dense rank, as long as
// there is one.
func (a *halved) reach(again *heter.Again) {
	c := a.w.rank.Coord
	again.Where = func(ctx context.Context, dense int) (string, error) {
		kv, err := c.Get(ctx, denseKey(dense))
		return string(kv.Value), err
	}
	again.Told = func(ctx context.Context, dense int) (json.RawMessage, bool, error) { return denseLeft(ctx, c, dense) }
	if in := a.w.inherited; in != nil && in.from != clock.None {
		again.First = in.from
	}
}

// gone says whether a dense rank has left, of a worker that goes on for one that had said
// that nothing more comes.
func (a *halved) gone(ctx context.Context, dense int) (bool, error) {
	if a.w.rank.Generation < 2 {
		return false, nil
	}
	report, left, err := denseLeft(ctx, a.w.rank.Coord, dense)
	if err != nil || !left {
		return false, err
	}
	return true, a.hear(dense, report)
}

// hear takes a dense rank's report.
func (a *halved) hear(dense int, report json.RawMessage) error {
	var r denseReport
	if err := json.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("train: the report of dense rank %d is not understood: %w; run the same psrt everywhere", dense, err)
	}
	a.said[dense] = r
	return nil
}

// slot is where a step's messages lie.
func (a *halved) slot(clock uint64) int { return int(clock % uint64(a.slots)) }

// compute is the worker's: both ways of all leaves.
func (a *halved) compute(b *batch, epoch int, acc *metric.Accumulator, tick func() error) error {
	if err := a.up(b, epoch, tick); err != nil {
		return err
	}
	if err := a.down(b, tick); err != nil {
		return err
	}
	return a.w.addRows(b, acc)
}

// up computes the sparse half of all leaves and sends each as soon as it is done.
func (a *halved) up(b *batch, epoch int, tick func() error) error {
	w := a.w
	began := time.Now()
	slot := a.slot(b.clock)
	if err := a.free(slot, tick); err != nil {
		return err
	}
	errs := make([]error, w.pool.threads)
	ticked := w.pool.ticking(func() error { return errors.Join(a.send(b, slot, epoch), tick()) })
	w.pool.each(len(b.step.Leaves), func(thread, i int) {
		n := b.step.Leaves[i].Len()
		if n > 0 {
			b.leaf(i, w.share.Micro, w.share.First, epoch, &w.leaves[i])
			labels, z, x := columns(a.to[i].Room(slot, w.share.First+i), n, w.model.Input())
			copy(labels, b.step.Leaves[i].Labels)
			sums := &a.sums[slot*len(a.to)+i]
			*sums = grow(*sums, n*w.model.Sums())
			if err := w.scr[thread].Look(&w.leaves[i], z, *sums, x); err != nil {
				errs[thread] = err
				return
			}
		}
		a.looked <- i
	})
	err := errors.Join(append(errs, ticked())...)
	if err == nil {
		err = a.send(b, slot, epoch)
	}
	a.busy += time.Since(began)
	return err
}

// free waits until nothing is to come any more of what lay at a slot: what was sent again
// to a dense rank's heir is answered again.
func (a *halved) free(slot int, tick func() error) error {
	for i := 0; i < len(a.to); {
		if a.to[i] == nil || !a.to[i].Open(slot, a.w.share.First+i) {
			i++
			continue
		}
		came, err := a.hub.Poll()
		switch {
		case err != nil:
			return a.lost(err)
		case len(came) > 0:
			return fmt.Errorf("train: %s answers what nobody has asked: please report this", came[0].Link.Peer())
		}
		if err := a.await(tick); err != nil {
			return err
		}
	}
	return nil
}

// send sends the leaves that have been looked at.
func (a *halved) send(b *batch, slot, epoch int) error {
	w := a.w
	for {
		select {
		case i := <-a.looked:
			n := b.step.Leaves[i].Len()
			h := heter.Head{Kind: kindTrain, Examples: uint32(n), Step: b.clock, FirstRow: b.step.FirstRow + uint64((w.share.First+i)*w.share.Micro),
				Epoch: uint32(epoch), Rows: uint32(b.step.Rows), Floats: uint32(n * linkFloats(w.model))}
			if err := a.to[i].Send(slot, w.share.First+i, h); err != nil {
				return a.lost(err)
			}
		default:
			return nil
		}
	}
}

// down takes the gradients of the leaves' activations as they come, and computes those
// of the rows.
func (a *halved) down(b *batch, tick func() error) error {
	w := a.w
	slot := a.slot(b.clock)
	for left := len(b.step.Leaves); left > 0; {
		came, err := a.hub.Poll()
		if err != nil {
			return a.lost(err)
		}
		if len(came) == 0 {
			if err := a.await(tick); err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		left -= len(came)
		errs := make([]error, w.pool.threads)
		ticked := w.pool.ticking(tick)
		w.pool.each(len(came), func(thread, k int) {
			c := &came[k]
			if err := a.spread(b, slot, c, thread); err != nil {
				errs[thread] = err
			}
		})
		if err := errors.Join(append(errs, ticked())...); err != nil {
			return err
		}
		a.busy += time.Since(began)
	}
	return nil
}

// spread goes on with one leaf.
func (a *halved) spread(b *batch, slot int, c *heter.Arrival, thread int) error {
	w := a.w
	i := c.Leaf - w.share.First
	n := b.step.Leaves[i].Len()
	if c.Slot != slot || c.Head.Step != b.clock || int(c.Head.Examples) != n || int(c.Head.Floats) != n*linkFloats(w.model) || a.to[i] != c.Link {
		return fmt.Errorf("train: %s answers leaf %d of step %d with one of %d examples of step %d: please report this", c.Link.Peer(), c.Leaf, b.clock, c.Head.Examples, c.Head.Step)
	}
	g := b.prepare(i, w.model.RowDim(), 0)
	if n == 0 {
		b.sent[i] = g.Rows
		return nil
	}
	preds, dz, dx := columns(c.Floats, n, w.model.Input())
	copy(g.Preds, preds)
	if err := w.scr[thread].Spread(&w.leaves[i], dz, a.sums[slot*len(a.to)+i], dx, g.Rows); err != nil {
		return err
	}
	b.count(i)
	return nil
}

// await waits a moment for a dense rank; servers are listened to meanwhile.
func (a *halved) await(tick func() error) error {
	began := time.Now()
	a.gate.Enter(began)
	defer a.gate.Leave()
	if err := a.hub.Wait(began.Add(pollInput)); err != nil {
		return err
	}
	a.wait += time.Since(began)
	return tick()
}

// lost is an error of a link in the terms of a job.
func (a *halved) lost(err error) error {
	var gone *heter.LostError
	if errors.As(err, &gone) {
		return &PeerLost{gone.Peer + " is gone", gone.Cause}
	}
	return err
}

// flush waits until the servers have what the dense ranks push of a pass. Outside bsp that is
// what they computed of this worker's leaves, before it says that it has trained its part; in bsp
// they may lack other workers' leaves until all have said so.
func (a *halved) flush(ctx context.Context, all bool) error {
	if a == nil || a.w.job.bsp() != all {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.w.rank.timeout())
	defer cancel()
	return a.lost(a.hub.Flush(ctx, a.w.clock))
}

// end tells the dense ranks that nothing more comes, and takes their reports.
func (a *halved) end(ctx context.Context) error {
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, wholeTimeout)
	defer cancel()
	said, err := a.hub.Bye(ctx)
	if err != nil {
		return a.lost(err)
	}
	for dense, b := range said {
		if err := a.hear(dense, b); err != nil {
			return err
		}
	}
	return nil
}

func (a *halved) close() error {
	if a == nil || a.hub == nil {
		return nil
	}
	a.gate.Close()
	return a.hub.Close()
}
