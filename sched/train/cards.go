package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/csrc/cuda"
	"psrt/csrc/nccl"
	"psrt/nccl/coll"
	"psrt/nccl/gpu"
	"psrt/nccl/ring"
	"psrt/rdma/dial"
)

// What adds dense gradients that workers add among themselves.
const (
	CollectiveRing = "ring" // psrt's own, over its transports; "" too
	CollectiveNCCL = "nccl" // NCCL, where each worker has a GPU of its own; else the ring
)

// cards is a worker's part in additions by NCCL, which come and go with the ring's group:
// that one agrees, tells who died, and carries what is not added. nil is a job that has
// none.
type cards struct {
	group  *gpu.Group // nil: the ring adds
	why    string     // it does
	refuse string     // why this worker wants no more of it
	added  *gpu.Info  // what has added to the end, and was left then
}

// add says whether they do, or did to the end.
func (c *cards) add() bool { return c != nil && (c.group != nil || c.added != nil) }

// DenseNCCL is what additions were made with, or why the ring made them.
type DenseNCCL struct {
	gpu.Info
	Why string `json:"why,omitempty"`
}

// validateCollective refuses what nobody would read.
func (j *Job) validateCollective() error {
	switch j.Collective {
	case "", CollectiveRing:
		return nil
	case CollectiveNCCL:
		if !j.reduces() {
			return fmt.Errorf("train: --collective %s with --dense %s: no worker adds anything; use --dense %s or %s", j.Collective, DensePS, DenseAllReduce, DenseMixed)
		}
		return nil
	}
	return fmt.Errorf("train: collective %q, must be %s or %s", j.Collective, CollectiveRing, CollectiveNCCL)
}

// joinCards has all workers use their cards, or none.
func (c *collective) joinCards(ctx context.Context) error {
	if c.cards == nil {
		return nil
	}
	c.mu.Lock()
	over := c.group
	c.mu.Unlock()
	g, err := gpu.Join(ctx, over, gpu.Options{Timeout: c.w.rank.timeout(), Order: c.order, Machine: dial.Machine(), Refuse: c.cards.refuse,
		AnyOrder: c.w.job.Sync != BSP, // no bit of those is promised
		Room:     c.cardBytes(),
		OnPanic:  c.w.rank.Host.OnPanic()})
	why := ""
	if errors.Is(err, gpu.ErrUnfit) {
		why, err = err.Error(), nil
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	news := c.cards.group == nil && c.cards.why != why
	c.cards.group, c.cards.why, c.cards.added = g, why, nil
	c.mu.Unlock()
	if c.w.rank.Index == 0 && news && g == nil {
		c.w.rank.emit(Event{Warning: fmt.Sprintf("dense gradients are added by psrt's own ring: %s; psrt doctor says what this machine has", why)})
	}
	if c.w.rank.Index == 0 && g != nil {
		i := g.Info()
		c.w.rank.emit(Event{Note: fmt.Sprintf("dense gradients are added by NCCL %s, here on %s", i.Version, i.Card)})
	}
	return nil
}

// cardBytes is what the batches' vectors, the sums and the additions take on a card.
func (c *collective) cardBytes() int64 {
	n := 3 * 4 * c.floats()
	for _, b := range c.w.all {
		n += b.dense.MemoryBytes()
	}
	return int64(n)
}

// noRoom has the ring add from now on where a card does not take this worker's memory.
func (c *collective) noRoom(err error) error {
	if c.cards != nil && c.cards.group != nil {
		c.failedCards(err)
		c.group.Abort(err)
	}
	return err
}

// finishCards leaves NCCL in order when all workers have all sums, and before they part: its
// communicators are finalized then. Where that takes too long, or a group is being joined for one that died
// meanwhile, it is given up when the worker closes.
func (c *collective) finishCards() {
	if c.cards == nil {
		return
	}
	s := &sumOf{done: make(chan error, 1)}
	over := time.NewTimer(finishWithin)
	defer over.Stop()
	c.requests <- s // none is under way, and there is room for one
	select {
	case <-s.done:
	case <-c.ended:
	case <-over.C:
	}
}

// finishWithin is far more than NCCL takes where all ranks are there.
const finishWithin = 30 * time.Second

// finished is finishCards' part in the goroutine that makes the calls.
func (c *collective) finished() error {
	c.mu.Lock()
	var added *gpu.Info
	if g := c.cards.group; g != nil {
		i := g.Info()
		added = &i
	}
	c.cards.added = added
	c.mu.Unlock()
	return c.leaveCards()
}

// leaveCards ends it, before the ring's group; where the worker closes before its end, after that, whose end
// is the end of a call that is under way: NCCL's work is then given up.
func (c *collective) leaveCards() error {
	if c.cards == nil {
		return nil
	}
	c.mu.Lock()
	g := c.cards.group
	c.cards.group = nil
	c.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.Close()
}

// adder is what adds gradients; with group, what carries the rest.
func (c *collective) adder() coll.Group {
	if c.cards != nil && c.cards.group != nil {
		return c.cards.group
	}
	return c.group
}

// failedCards remembers a card that failed: there is no use in trying again. Where another
// worker is blamed this one's card is well.
func (c *collective) failedCards(err error) {
	var blamed *coll.RankError
	if errors.As(err, &blamed) && blamed.Rank != c.w.rank.Index {
		return
	}
	var library *nccl.Error
	var driver *cuda.Error
	if c.cards != nil && (errors.As(err, &library) || errors.As(err, &driver)) {
		c.cards.refuse = "it failed before: " + err.Error()
	}
}

// use tells what was used last.
func (c *cards) use() *DenseNCCL {
	switch {
	case c == nil:
		return nil
	case c.added != nil:
		return &DenseNCCL{Info: *c.added}
	case c.group == nil:
		return &DenseNCCL{Why: c.why}
	}
	return &DenseNCCL{Info: c.group.Info()}
}

var _ gpu.Control = (*ring.Group)(nil)
