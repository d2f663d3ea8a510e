package train

import (
	"context"
	"errors"
	"fmt"

	"psrt/nccl/coll"
	"psrt/nccl/ring"
	"psrt/rdma/mem"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
	"psrt/tiers/dense"
)

// regroup joins the first group, or the one after a group that has broken: because of
// why, or because another worker asks for it. Where workers are replaced it waits for
// who goes on for a dead one, as long as servers do. Then all have the vector before
// the same step: who had not got the last sum gets it from one that had, and who is new
// gets values, optimizer's state, and what it needs to compute the steps again that its
// servers lack.
//
// Faults survived: the death of any workers but all at once, at nearly any moment, also
// while a group is joined or the vector is told; one that was only stopped, which finds
// its number taken; a connection that breaks between two that live. Not survived: that a
// worker dies behind a sum that has reached it and the servers, and no worker that lives;
// see agree, which says so.
func (c *collective) regroup(ctx context.Context, why error) error {
	limit := c.w.rank.timeout()
	if c.survives {
		limit = max(limit, lostFor)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer c.w.rank.Stall.Begin(stall.Barrier, "the other workers", "to join the all-reduce of dense gradients", nil)()
	for {
		if err := c.leave(); err != nil {
			return err
		}
		err := c.join(ctx)
		if err == nil {
			if err = c.joinCards(ctx); err == nil {
				err = c.sync(ctx)
			}
			if err == nil && c.w.job.Dense == DenseMixed {
				err = c.mix()
			}
			if err == nil {
				err = c.cut()
			}
			if err == nil {
				return nil
			}
			if c.group.Err() == nil {
				return err // that is not of another's making
			}
		}
		// Who had not come to the first group yet may be replaced in any job.
		first := c.replica == nil && errors.Is(err, errSuperseded)
		if !c.survives && !first || ctx.Err() != nil || errors.Is(err, errNoCard) {
			return fmt.Errorf("train: --dense %s: %w", c.w.job.Dense, errors.Join(why, err))
		}
		if why == nil {
			why = err
		}
	}
}

// errNoCard: the coordinator does not let this process ask for a group.
var errNoCard = errors.New("train: this worker cannot say where it is")

// join asks for the next group, or the newest that another asks for.
func (c *collective) join(ctx context.Context) error {
	newest, _ := c.roll.newest()
	c.mine.Epoch = max(c.mine.Epoch+1, newest)
	if err := c.roll.show(ctx, c.mine); err != nil {
		return fmt.Errorf("%w: %w", errNoCard, err)
	}
	epoch := c.mine.Epoch
	ctx, cancel := c.roll.until(ctx, epoch)
	defer cancel()
	g, err := c.meet(ctx, epoch)
	if newest, _ := c.roll.newest(); err != nil && newest > epoch {
		err = fmt.Errorf("%w: %w", errSuperseded, err)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.group, c.met = g, epoch
	c.mu.Unlock()
	c.news()
	return nil
}

// meet joins the group of that epoch with all workers.
func (c *collective) meet(ctx context.Context, epoch uint64) (*ring.Group, error) {
	hosts, err := c.roll.hosts(ctx, epoch)
	if err != nil {
		return nil, err
	}
	place := ring.Place{Rank: c.w.rank.Index, Size: c.w.job.Workers, Epoch: epoch, Order: c.order, Hosts: hosts}
	return c.member.Join(ctx, place, func(ctx context.Context, rank int) (string, error) {
		other, err := c.roll.of(ctx, rank, epoch)
		return other.Addr, err
	})
}

// leave ends the group, and the memory's part in it.
func (c *collective) leave() error {
	c.mu.Lock()
	g := c.group
	c.group = nil
	c.mu.Unlock()
	errs := []error{c.leaveCards()}
	if g != nil {
		g.Abort(errSuperseded) // unless it has failed, or was closed
		errs = append(errs, g.Close())
	}
	for b, m := range c.memories {
		err := m.Close()
		b.kept = errors.Is(err, coll.ErrWrites)
		errs = append(errs, err)
		delete(c.memories, b)
	}
	if c.landing != nil {
		errs = append(errs, coll.GiveBack(c.landed, c.landing))
	}
	c.landing, c.landed = nil, nil
	return errors.Join(errs...)
}

// land makes the memory that sums come into, new for each group.
func (c *collective) land() (err error) {
	if c.landing != nil {
		return nil
	}
	c.landing, c.landed, err = c.memory(c.adder(), 4*c.floats(), "worker dense sums")
	return err
}

// memory is of a group.
func (c *collective) memory(g coll.Group, size int, purpose string) (*mem.Arena, coll.Memory, error) {
	a, err := mem.New(mem.Config{Size: size, Node: c.w.rank.Node, Purpose: purpose, Share: true})
	if err != nil {
		return nil, nil, err
	}
	m, err := g.Register(a, purpose)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	return a, m, nil
}

// forget gives it back. Others may still write there after a call that failed: not when
// the group is closed.
func (c *collective) forget(a *mem.Arena, m coll.Memory) error {
	var err error
	if c.group.Err() != nil {
		err = c.group.Close()
	}
	return errors.Join(err, coll.GiveBack(m, a))
}

// floats is the vector's length.
func (c *collective) floats() int {
	last := c.blocks[len(c.blocks)-1]
	return last.Offset + last.Len
}

// stand is this worker's.
func (c *collective) stand() denseStand {
	s := denseStand{has: c.replica != nil, clean: true, needs: c.from, pastSums: c.pastSums}
	if in := c.w.inherited; in != nil {
		s.clean = in.clean || in.fresh <= in.from
	}
	if s.has {
		s.applied, s.needs, s.oldest = c.applied, c.applied, c.past.oldest(c.applied)
	}
	return s
}

// sync has all workers of a new group come to the same vector.
func (c *collective) sync(ctx context.Context) error {
	n := c.w.job.Workers
	stands, err := c.stands(n)
	if err != nil {
		return err
	}
	a, err := agree(stands)
	if err != nil {
		return err
	}
	if a.load {
		c.applied = c.from
		return c.loadAll(ctx)
	}
	if a.from == a.to && !a.state {
		return nil
	}
	return c.tell(a)
}

// stands are all workers'.
func (c *collective) stands(n int) (_ []denseStand, err error) {
	arena, m, err := c.memory(c.group, standBytes*(n+1), "collective's standing")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.forget(arena, m)) }()
	send, recv := arena.Bytes()[:standBytes], arena.Bytes()[standBytes:standBytes*(n+1)]
	c.stand().encode(send)
	if err := c.group.Do(coll.Call{Kind: coll.AllGather, Type: coll.U64, Send: send, Recv: recv}); err != nil {
		return nil, err
	}
	all := make([]denseStand, n)
	for i := range all {
		all[i].decode(recv[standBytes*i:])
	}
	return all, nil
}

// tell has the root tell the others.
func (c *collective) tell(a agreement) (err error) {
	isNew := c.replica == nil
	if isNew {
		if err := c.newReplica(); err != nil {
			return err
		}
		defer func() {
			if err != nil { // it has nothing yet
				err = errors.Join(err, c.replica.Close())
				c.replica, c.past.steps = nil, nil
			}
		}()
	}
	states := 0
	for i := range c.blocks {
		states += len(c.replica.State(i))
	}
	none := make([]float32, a.to-a.from) // 1 for a step without gradients
	arena, m, err := c.memory(c.group, 4*max(c.floats(), states, len(none)), "collective's dense vector")
	if err != nil {
		return err
	}
	isRoot := a.root == c.w.rank.Index
	defer func() { err = errors.Join(err, c.forget(arena, m)) }()
	share := func(v []float32) error {
		b := arena.Bytes()[:4*len(v)]
		if isRoot {
			copy(b, mem.Bytes(v))
		}
		if err := c.group.Do(coll.Call{Kind: coll.Broadcast, Type: coll.F32, Root: a.root, Recv: b}); err != nil {
			return err
		}
		if !isRoot {
			copy(mem.Bytes(v), b)
		}
		return nil
	}
	if isRoot {
		for i := range none {
			p, err := c.past.of(a.from + uint64(i))
			if err != nil {
				return err
			}
			if p.none {
				none[i] = 1
			}
		}
	}
	if len(none) > 0 && c.w.job.Compress.Keeps() {
		if err := share(none); err != nil {
			return err
		}
	}
	for step := a.from; step < a.to; step++ {
		if none[step-a.from] != 0 {
			if isNew {
				c.past.skip(step)
			} else {
				c.skipTo(step + 1)
			}
			continue
		}
		p := &pastStep{before: make([]float32, c.floats()), sum: make([]float32, c.floats())}
		if isRoot {
			if p, err = c.past.of(step); err != nil {
				return err
			}
		}
		if err := errors.Join(share(p.before), share(p.sum)); err != nil {
			return err
		}
		switch {
		case isNew:
			c.past.add(step, p.before, p.sum)
		case step >= c.applied:
			c.apply(step, p.sum, 0)
		}
	}
	if !a.state {
		return nil
	}
	values, state := make([]float32, c.floats()), make([]float32, 0, states)
	if !isNew {
		copy(values, c.published())
	}
	for i := range c.blocks {
		state = append(state, c.replica.State(i)...)
	}
	if err := errors.Join(share(values), share(state)); err != nil || !isNew {
		return err
	}
	for i, b := range c.blocks {
		n := len(c.replica.State(i))
		if err := c.replica.Load(i, values[b.Offset:b.Offset+b.Len], state[:n]); err != nil {
			return err
		}
		state = state[n:]
	}
	c.replica.Publish()
	c.applied = a.to
	return nil
}

// newReplica is the vector as it begins.
func (c *collective) newReplica() (err error) {
	c.replica, err = c.newVector(c.blocks)
	return err
}

// newVector has these blocks as they begin.
func (c *collective) newVector(blocks []densemap.Block) (*dense.Vector, error) {
	cfg, err := c.w.job.dense(c.w.model)
	if err != nil {
		return nil, err
	}
	var parts []dense.Part
	for _, b := range blocks {
		rule := dense.Rule{Optimizer: cfg.Optimizer}
		if b.Rule == "ema" {
			rule = dense.Rule{EMA: cfg.EMA}
		}
		parts = append(parts, dense.Part{Rule: rule, Values: cfg.Init[b.Offset : b.Offset+b.Len]})
	}
	return dense.New(parts, c.w.rank.Node)
}

// loadAll is load by all workers: those that ask no server are told.
func (c *collective) loadAll(ctx context.Context) error {
	if !c.w.carried.follows() {
		if err := c.load(ctx); err != nil {
			return err
		}
	}
	if c.w.carriers == nil {
		return nil
	}
	return c.tell(agreement{root: c.w.carriers[0], from: c.from, to: c.from, state: true})
}

// load makes the replica from what the servers have.
func (c *collective) load(ctx context.Context) error {
	if err := c.newReplica(); err != nil {
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
