package train

import (
	"context"
	"errors"
	"fmt"

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
}

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
	c.cards.group, c.cards.why = g, why
	c.mu.Unlock()
	if c.w.rank.Index == 0 && news && g == nil {
		c.w.rank.emit(Event{Note: fmt.Sprintf("dense gradients are added by psrt's own ring: %s; psrt doctor says what this machine has", why)})
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
		n += len(b.dense.Memory().Bytes())
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

// leaveCards ends it, before the ring's group; when the worker closes, after that, whose end
// is the end of a call that is under way: NCCL's work is then given up, which is all the
// same, as no worker closes before all have all sums.
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
	case c.group == nil:
		return &DenseNCCL{Why: c.why}
	}
	return &DenseNCCL{Info: c.group.Info()}
}

var _ gpu.Control = (*ring.Group)(nil)
