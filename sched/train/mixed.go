package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"psrt/nccl/coll"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/densemap"
	"psrt/sched/densesplit"
)

// mixed is a worker's part in --dense mixed: which blocks the workers add, as with
// DenseAllReduce, and which they push to the servers and pull from them. Both ways are
// under way at once. It is chosen before the first step, by all workers alike, and stays:
// who goes on for a dead worker takes over what the others use.
// nil is a job in which the workers add all.
type mixed struct {
	measured densesplit.Measured
	split    densesplit.Split
	pushed   client.Lanes // those with blocks that are not added
	blocks   []bool       // by block: it is added
	stretch  []stretch    // of the vector that is added
}

type stretch struct{ from, to int }

// MixedUse is how --dense mixed split the vector.
type MixedUse struct {
	// Share of the vector that was added among the workers.
	Share float64 `json:"allreduce_share"`
	// Measured are the seconds that the whole vector takes either way, before the
	// first step.
	Measured densesplit.Measured `json:"measured"`
	// Seconds that the exchange of a step was expected to take.
	Seconds float64 `json:"expected_s"`
	// Lanes with dense values: the shares that are possible.
	Lanes int `json:"lanes"`
}

func (m *mixed) use() *MixedUse {
	if m == nil {
		return nil
	}
	return &MixedUse{Share: m.split.Share, Measured: m.measured, Seconds: m.split.Seconds, Lanes: len(m.pushed)}
}

// adds says whether the workers add block i.
func (m *mixed) adds(i int) bool { return m == nil || m.blocks[i] }

// added are the lanes of these blocks.
func (m *mixed) added() client.Lanes {
	if m == nil {
		return nil
	}
	return m.split.Reduced
}

// runs are the stretches of a vector that the workers add.
func (m *mixed) runs(floats int) []stretch {
	if m == nil {
		return []stretch{{0, floats}}
	}
	return m.stretch
}

// longest is the most floats that one call adds, 0 where the servers add all.
func (m *mixed) longest(floats int) (most int) {
	for _, r := range m.runs(floats) {
		most = max(most, r.to-r.from)
	}
	return most
}

// whole is the vector to compute with: pulled has the blocks that are not added, and gets
// the others.
func (m *mixed) whole(pulled, replica []float32) []float32 {
	if m == nil {
		return replica
	}
	for _, r := range m.stretch {
		copy(pulled[r.from:r.to], replica[r.from:r.to])
	}
	return pulled
}

// take copies what the workers have added from sum to to, whose other blocks servers may be
// reading.
func (m *mixed) take(to, sum []float32) {
	for _, r := range m.runs(len(sum)) {
		copy(to[r.from:r.to], sum[r.from:r.to])
	}
}

// newMixed works out what a split means.
func newMixed(blocks []densemap.Block, laneOf []int, measured densesplit.Measured) (*mixed, error) {
	var elements []int
	for i, lane := range laneOf {
		for len(elements) <= lane {
			elements = append(elements, 0)
		}
		elements[lane] += blocks[i].Len
	}
	m := &mixed{measured: measured}
	var err error
	if m.split, err = densesplit.Choose(measured, elements); err != nil {
		return nil, err
	}
	for _, reduced := range m.split.Reduced {
		m.pushed = append(m.pushed, !reduced)
	}
	m.divide(blocks, laneOf)
	return m, nil
}

// divide finds the blocks and stretches that are added.
func (m *mixed) divide(blocks []densemap.Block, laneOf []int) {
	m.blocks = make([]bool, len(blocks))
	for i, b := range blocks {
		if m.blocks[i] = m.split.Reduced[laneOf[i]]; !m.blocks[i] {
			continue
		}
		if n := len(m.stretch); n > 0 && m.stretch[n-1].to == b.Offset {
			m.stretch[n-1].to += b.Len
		} else {
			m.stretch = append(m.stretch, stretch{b.Offset, b.Offset + b.Len})
		}
	}
}

// pull asks for the dense values that this worker does not have.
func (c *collective) pull(b *batch) error {
	if c == nil || c.mixed == nil {
		return nil
	}
	return c.w.client.PullDenseOf(b.dense, b.clock, c.mixed.pushed, 0, &b.pullDense)
}

// mixRounds is how often either way is measured; the quickest counts.
const mixRounds = 3

// mix has all workers of a group use the same split. Where none of them knows one they measure
// both ways with the whole vector, all at once, and choose. A push
// takes the way of a pull back, so that two pulls stand for the servers' way; nothing may
// be pushed yet. With the workers' way one of them pushes the sum, which is a pull's part.
// No step is under way then, so that the batch is free.
func (c *collective) mix() (err error) {
	var known densesplit.Measured
	if c.mixed != nil {
		known = c.mixed.measured
	}
	if known, err = c.slowest(known); err != nil || c.mixed != nil {
		return err
	}
	measured := &known
	if known == (densesplit.Measured{}) {
		if measured = c.w.job.DenseMeasured; measured == nil {
			if measured, err = c.measure(); err != nil {
				return err
			}
		}
	}
	c.mixed, err = newMixed(c.blocks, c.w.all[0].dense.BlockLanes(len(c.blocks)), *measured)
	return err
}

// measure makes a batch's vectors worthless.
func (c *collective) measure() (*densesplit.Measured, error) {
	b := c.w.all[0]
	m, err := c.adder().Register(b.dense.Memory(), "worker dense vector")
	if err != nil {
		return nil, err
	}
	c.memories[b] = m
	grads := mem.Bytes(b.dense.Grads())
	var call client.Call
	pull, err := c.quickest(func() error {
		if err := c.w.client.PullDense(b.dense, c.w.clock, client.ReadOnly|client.AnyClock, &call); err != nil {
			return err
		}
		return c.w.client.Wait(&call)
	})
	if err != nil {
		return nil, err
	}
	clear(grads)
	reduce, err := c.quickest(func() error {
		return c.adder().Do(coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: grads, Recv: grads})
	})
	if err != nil {
		return nil, err
	}
	measured, err := c.slowest(densesplit.Measured{Servers: 2 * pull, Reduce: reduce + pull/float64(c.w.job.Workers)})
	return &measured, err
}

// quickest is the least seconds that all workers together take for f.
func (c *collective) quickest(f func() error) (least float64, err error) {
	for i := range mixRounds {
		if err := c.group.Do(coll.Call{Kind: coll.Barrier}); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(began).Seconds(); i == 0 || took < least {
			least = took
		}
	}
	return max(least, 1e-9), nil // the clock may be coarse
}

// slowest is what the worker that takes longest has measured.
func (c *collective) slowest(mine densesplit.Measured) (all densesplit.Measured, err error) {
	arena, m, err := c.memory(c.group, 2*8, "collective's measurements")
	if err != nil {
		return all, err
	}
	defer func() { err = errors.Join(err, c.forget(arena, m)) }()
	b := arena.Bytes()[:2*8]
	binary.LittleEndian.PutUint64(b, math.Float64bits(mine.Servers))
	binary.LittleEndian.PutUint64(b[8:], math.Float64bits(mine.Reduce))
	if err := c.group.Do(coll.Call{Kind: coll.AllReduce, Type: coll.F64, Op: coll.Max, Send: b, Recv: b}); err != nil {
		return all, err
	}
	all.Servers = math.Float64frombits(binary.LittleEndian.Uint64(b))
	all.Reduce = math.Float64frombits(binary.LittleEndian.Uint64(b[8:]))
	return all, nil
}

// validateMixed refuses what would make the split another in the middle of the job, or has
// blocks go a way that is not theirs.
func (j *Job) validateMixed() error {
	for _, no := range []struct {
		is        bool
		with, why string
	}{
		{j.Sync != BSP || !j.bsp(), "another consistency than bsp", "blocks would be of different steps; use --sync " + BSP},
		{j.Chained(), "--replicas or --groups", "lanes move, and the split is by lane; leave them out"},
		{j.Compress.On(), "--compress", "sums travel as they are; use none"},
		{j.Audit != nil, "--audit", "a record takes all blocks for pulled; leave it out"},
	} {
		if no.is {
			return fmt.Errorf("train: --dense %s with %s: %s, or use --dense %s", DenseMixed, no.with, no.why, DenseAllReduce)
		}
	}
	return nil
}
