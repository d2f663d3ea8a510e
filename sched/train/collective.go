package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/nccl/coll"
	"psrt/nccl/ring"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
	"psrt/sched/tree"
	"psrt/tiers/dense"
)

// How dense gradients travel.
const (
	DensePS        = "ps"        // pushed to the servers by every worker, values pulled
	DenseAllReduce = "allreduce" // added among the workers; see collective
)

// collective is a worker's part in --dense allreduce. The workers add their dense
// gradients among themselves, in the order in which servers add them, and each
// applies the sum to a replica of the dense vector, values and optimizer's state.
// One worker for each lane pushes the sum to it as well: the servers stay what the
// model is saved, scored and resumed from, and nobody pulls dense values to train.
// What a server does with one push of the sum is what it does with the pushes that
// the sum is of, so the model is that of --dense ps to the bit, under BSP.
type collective struct {
	w        *worker
	member   *ring.Member
	group    *ring.Group
	blocks   []densemap.Block
	replica  *dense.Vector
	memories map[*batch]coll.Memory
	pending  *coll.Pending // of the batch whose gradients are being added
	last     *client.Call  // the newest push, outside BSP
	ended    <-chan struct{}
}

func collectiveKey(worker int) string { return fmt.Sprintf("collective/%d", worker) }

// newCollective listens, and tells where.
func newCollective(ctx context.Context, w *worker, blocks []densemap.Block) (*collective, error) {
	if w.job.Dense != DenseAllReduce || len(blocks) == 0 {
		return nil, nil
	}
	listen := w.rank.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	m, err := ring.Listen(w.rank.Host, listen, "dense gradients", ring.Options{Timeout: w.rank.timeout(), Node: w.rank.Node})
	if err != nil {
		return nil, fmt.Errorf("train: --dense %s: %w", DenseAllReduce, err)
	}
	c := &collective{w: w, member: m, blocks: blocks, memories: map[*batch]coll.Memory{}}
	if _, err := w.rank.Coord.Put(ctx, collectiveKey(w.rank.Index), []byte(m.Addr()), 0); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// begin meets the other workers and takes the vector as the servers have it. No step
// can be under way: the first needs all workers.
func (c *collective) begin(ctx context.Context) error {
	if c == nil {
		return nil
	}
	w := c.w
	c.ended = ctx.Done()
	_, shares, err := w.job.shares()
	if err != nil {
		return err
	}
	top, err := tree.Top(shares)
	if err != nil {
		return err
	}
	place := ring.Place{Rank: w.rank.Index, Size: w.job.Workers, Epoch: 1, Order: make([]coll.Merge, 0, len(top))}
	for _, m := range top {
		place.Order = append(place.Order, coll.Merge{Dst: m.Dst, Src: m.Src})
	}
	joining, cancel := context.WithTimeout(ctx, w.rank.timeout())
	defer cancel()
	end := w.rank.Stall.Begin(stall.Barrier, "the other workers", "to join the all-reduce of dense gradients", nil)
	c.group, err = c.member.Join(joining, place, func(ctx context.Context, rank int) (string, error) {
		v, err := coord.Await(ctx, w.rank.Coord, collectiveKey(rank))
		return string(v), err
	})
	end()
	if err != nil {
		return fmt.Errorf("train: --dense %s: %w", DenseAllReduce, err)
	}
	return c.load(ctx)
}

// load makes the replica.
func (c *collective) load(ctx context.Context) error {
	cfg, err := c.w.job.dense(c.w.model)
	if err != nil {
		return err
	}
	var parts []dense.Part
	for _, b := range c.blocks {
		rule := dense.Rule{Optimizer: cfg.Optimizer}
		if b.Rule == "ema" {
			rule = dense.Rule{EMA: cfg.EMA}
		}
		parts = append(parts, dense.Part{Rule: rule, Values: cfg.Init[b.Offset : b.Offset+b.Len]})
	}
	if c.replica, err = dense.New(parts, c.w.rank.Node); err != nil {
		return err
	}
	found := 0
	for server := range c.w.client.Servers() {
		for next := 0; ; {
			var rep psmsg.DenseStateReply
			if err := c.w.client.CallServer(ctx, server, psmsg.MethodDenseState, psmsg.DenseStateRequest{From: next}, &rep); err != nil {
				return err
			}
			if !rep.Found {
				break
			}
			if rep.Block < next || rep.Block >= len(c.blocks) {
				return fmt.Errorf("train: server %d has dense block %d, there are %d", server, rep.Block, len(c.blocks))
			}
			values, state := make([]float32, c.blocks[rep.Block].Len), make([]float32, len(c.replica.State(rep.Block)))
			if len(rep.Values) != 4*len(values) || len(rep.State) != 4*len(state) {
				return fmt.Errorf("train: server %d gives %d bytes of values and %d of state for dense block %d, want %d and %d",
					server, len(rep.Values), len(rep.State), rep.Block, 4*len(values), 4*len(state))
			}
			copy(mem.Bytes(values), rep.Values)
			copy(mem.Bytes(state), rep.State)
			if err := c.replica.Load(rep.Block, values, state); err != nil {
				return err
			}
			next = rep.Block + 1
			found++
		}
	}
	if found != len(c.blocks) {
		return fmt.Errorf("train: the servers have %d dense blocks, want %d", found, len(c.blocks))
	}
	c.replica.Publish()
	return nil
}

// values are those to compute a step with.
func (c *collective) values() []float32 { return c.replica.Published().Values(0, len(c.blocks)) }

// start begins to add the batch's dense gradients to the other workers'.
func (c *collective) start(b *batch) error {
	if c.memories[b] == nil {
		m, err := c.group.Register(b.dense.Memory(), "worker dense vector")
		if err != nil {
			return err
		}
		c.memories[b] = m
	}
	g := mem.Bytes(b.dense.Grads())
	c.pending = c.group.Start(coll.Call{Kind: coll.AllReduce, Type: coll.F32, Send: g, Recv: g, Absent: b.examples() == 0})
	return nil
}

// push waits for the sum, applies it here and pushes it to the lanes that are this
// worker's.
func (c *collective) push(b *batch) error {
	if err := c.wait(); err != nil {
		return fmt.Errorf("train: step %d: %w", b.clock+1, err)
	}
	g := b.dense.Grads()
	for i, block := range c.blocks {
		c.replica.Apply(i, g[block.Offset:block.Offset+block.Len]) // who pushes hears what is refused
	}
	c.replica.Publish()
	if c.last != nil { // lanes must not add two steps' sums before they apply them
		if err := c.w.client.Wait(c.last); err != nil {
			return err
		}
	}
	others := client.AbsentPushes
	if c.w.job.Sync != BSP {
		others, c.last = client.NoPushes, &b.pushDense
	}
	return c.w.client.PushDenseSum(b.dense, b.clock, c.w.rank.Index, c.w.job.Workers, others, &b.pushDense)
}

// wait handles what servers answer meanwhile: another worker may wait for that.
func (c *collective) wait() error {
	defer c.w.rank.Stall.Begin(stall.Barrier, "the other workers", "to add dense gradients", nil)()
	for {
		select {
		case <-c.pending.Done():
			return c.pending.Wait()
		case <-c.ended:
			return context.Canceled
		case <-time.After(pollEvery):
			if err := c.w.client.Poll(); err != nil {
				return err
			}
		}
	}
}

const pollEvery = time.Millisecond

// check holds the replica against what the servers have in the end.
func (c *collective) check() error {
	if c == nil {
		return nil
	}
	var call client.Call
	b := c.w.all[0]
	if err := c.w.client.PullDense(b.dense, c.w.clock, client.ReadOnly|client.AnyClock, &call); err != nil {
		return err
	}
	if err := c.w.client.Wait(&call); err != nil {
		return err
	}
	if mine := c.values(); !slices.Equal(mem.Bytes(b.dense.Values()), mem.Bytes(mine)) {
		return fmt.Errorf("train: --dense %s: the dense values here are not the servers' after %d steps: please report this; train with --dense %s", DenseAllReduce, c.w.pos.Steps, DensePS)
	}
	return nil
}

// close withdraws the batches' memory, before they are closed.
func (c *collective) close() error {
	if c == nil {
		return nil
	}
	var errs []error
	if c.group != nil {
		errs = append(errs, c.group.Close())
	}
	for _, m := range c.memories {
		errs = append(errs, m.Close())
	}
	if c.replica != nil {
		errs = append(errs, c.replica.Close())
	}
	return errors.Join(append(errs, c.member.Close())...)
}

// validateDense checks what --dense allreduce asks of a job.
func (j *Job) validateDense() error {
	switch {
	case j.Dense == "" || j.Dense == DensePS:
		return nil
	case j.Dense != DenseAllReduce:
		return fmt.Errorf("train: dense %q, must be %s or %s", j.Dense, DensePS, DenseAllReduce)
	case j.OnWorkerLoss != "" && j.OnWorkerLoss != LossEnd:
		return fmt.Errorf("train: --dense %s: no other process can take a worker's part in it; use --on-worker-loss %s, or --dense %s", DenseAllReduce, LossEnd, DensePS)
	}
	return nil
}
