package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/nccl/bucket"
	"psrt/nccl/coll"
	"psrt/nccl/ring"
	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/coord"
	"psrt/sched/densemap"
	"psrt/sched/stall"
	"psrt/sched/tree"
	"psrt/tiers/dense"
)

// How dense gradients travel.
const (
	DensePS        = "ps"        // pushed to the servers by every worker, values pulled
	DenseAllReduce = "allreduce" // added among the workers; see collective
	DenseMixed     = "mixed"     // some blocks go the one way and some the other; see mixed
)

// collective is a worker's part in --dense allreduce. The workers add their dense
// gradients among themselves, in the order in which servers add them, and each
// applies the sum to a replica of the dense vector, values and optimizer's state.
// One worker for each lane pushes the sum to it as well: the servers stay what the
// model is saved, scored and resumed from, and nobody pulls dense values to train.
// What a server does with one push of the sum is what it does with the pushes that
// the sum is of, so the model is that of --dense ps to the bit, under BSP.
//
// A goroutine of its own makes the calls and joins the groups: who computes may wait
// for rows that a dead worker has not pushed, and who goes on for that one needs the
// others' dense values first. See regroup.
type collective struct {
	w        *worker
	member   *ring.Member
	roll     *roll
	blocks   []densemap.Block
	mixed    *mixed // nil: the workers add all blocks
	order    []coll.Merge
	survives bool
	from     uint64 // the first step that this process computes
	pastSums bool   // see denseStand
	over     bool   // the process before this one had left: there is nothing to add
	requests chan *sumOf
	stop     context.CancelFunc
	running  sync.WaitGroup
	ended    <-chan struct{}

	mu    sync.Mutex
	group *ring.Group // nil between two of them
	met   uint64      // epoch of the newest
	cards *cards      // what it has is of mu; nil: the group adds, too

	// Of the goroutine that makes the calls, and of others while none is asked for:
	mine     card
	replica  *dense.Vector
	applied  uint64  // the step that the replica is before
	past     history // where the job survives a worker's death
	memories map[*batch]coll.Memory
	bucket   int            // bytes of the calls that a vector is added in; 0: one call, unknownBucket: not agreed on
	tried    []bucket.Tried // what was measured for it
	landing  *mem.Arena     // of sums, likewise: who was thought dead may still write into an old one's
	landed   coll.Memory

	pending *sumOf       // the newest
	last    *client.Call // the newest push, outside BSP
}

// sumOf is a step whose gradients are to be added.
type sumOf struct {
	b      *batch // nil: none, all are added
	skip   uint64 // nobody has gradients in the steps before that one; 0: there may be some
	absent bool
	done   chan error
}

// newCollective listens, and learns how far the process before this one was.
func newCollective(ctx context.Context, w *worker, blocks []densemap.Block) (*collective, error) {
	if !w.job.reduces() || len(blocks) == 0 {
		return nil, nil
	}
	listen := w.rank.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	options := ring.Options{Timeout: w.rank.timeout(), Node: w.rank.Node}
	m, err := ring.Listen(w.rank.Host, listen, "dense gradients", options)
	if err != nil && w.rank.Generation > 1 {
		// It may be in the process of another worker, which has the address.
		m, err = ring.Listen(w.rank.Host, beside(listen, "dense", w.rank.Index), "dense gradients", options)
	}
	if err != nil {
		return nil, fmt.Errorf("train: --dense %s: %w", w.job.Dense, err)
	}
	c := &collective{w: w, member: m, blocks: blocks, survives: w.job.Survives(), memories: map[*batch]coll.Memory{},
		bucket: unknownBucket, roll: newRoll(w.rank.Coord, w.rank.Index, w.job.Workers), requests: make(chan *sumOf, 1), stop: func() {}}
	if w.rank.Generation > 1 {
		if c.mine, err = c.roll.had(ctx); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	if w.job.Collective == CollectiveNCCL {
		c.cards = &cards{}
	}
	c.mine.Addr, c.mine.Generation, c.mine.Host = m.Addr(), w.rank.Generation, cmp.Or(w.rank.Label, dial.Machine())
	c.met = c.mine.Epoch
	if left := w.rank.Legacy; left != nil {
		c.replica, c.applied, c.past = left.dense.replica, left.dense.applied, left.dense.past
		left.dense = legacyDense{}
	}
	c.past.room = w.job.pastSteps()
	return c, nil
}

// beside is where a worker listens for something where another part of it, or another
// worker in its process, has the address.
func beside(listen, what string, worker int) string {
	if strings.HasPrefix(listen, "unix:") {
		return fmt.Sprintf("%s.%s%d", listen, what, worker)
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // which Listen refuses
	}
	return net.JoinHostPort(host, "0")
}

// begin meets the other workers and takes the vector: as the servers have it where no
// step can be under way, since the first needs all workers; else from the others.
func (c *collective) begin(ctx context.Context) error {
	if c == nil {
		return nil
	}
	w := c.w
	c.from = w.clock
	if in := w.inherited; in != nil {
		c.over = in.from == clock.None
		if !c.over { // behind this nobody meets any more
			absent, err := coord.Absent(ctx, w.rank.Coord, checkedName, w.job.Workers)
			if err != nil {
				return err
			}
			c.over = len(absent) == 0
		}
		if c.over {
			return nil
		}
		c.from = in.from
		said, err := w.said(ctx, keptName(w.pos.Epoch))
		if err != nil {
			return err
		}
		c.pastSums = said != nil
	}
	_, shares, err := w.job.shares(w.job.Workers)
	if err != nil {
		return err
	}
	top, err := tree.Top(shares)
	if err != nil {
		return err
	}
	for _, m := range top {
		c.order = append(c.order, coll.Merge{Dst: m.Dst, Src: m.Src})
	}
	c.ended = ctx.Done()
	ctx, c.stop = context.WithCancel(ctx)
	ready := make(chan error, 1)
	c.running.Go(rdma.Guarded(w.rank.Host.OnPanic(), func() { c.roll.follow(ctx, c.news) }))
	c.running.Go(rdma.Guarded(w.rank.Host.OnPanic(), func() { c.run(ctx, ready) }))
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// news ends what is under way in a group that has passed.
func (c *collective) news() {
	newest, _ := c.roll.newest()
	c.mu.Lock()
	g := c.group
	c.mu.Unlock()
	if g != nil && newest > g.Epoch() {
		g.Abort(errSuperseded)
	}
}

// run answers requests, and follows the others into new groups when there is none.
func (c *collective) run(ctx context.Context, ready chan<- error) {
	err := c.regroup(ctx, nil)
	ready <- err
	for ctx.Err() == nil {
		newest, changed := c.roll.newest()
		if err == nil && c.survives && newest > c.mine.Epoch {
			err = c.regroup(ctx, errSuperseded)
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case s := <-c.requests:
			switch {
			case s.skip > 0:
				c.skipTo(s.skip)
				s.done <- nil
				continue
			case s.b == nil:
				s.done <- c.finished()
				continue
			case err == nil:
				err = c.add(ctx, s)
			}
			s.done <- err
		}
	}
}

// add has the batch's dense gradients become the sum of all workers', and applies it.
func (c *collective) add(ctx context.Context, s *sumOf) error {
	g := s.b.dense.Grads()
	for s.b.clock >= c.applied {
		if s.b.clock > c.applied {
			return fmt.Errorf("train: step %d is to be added, and the dense values are before step %d: please report this", s.b.clock, c.applied)
		}
		applied := 0
		sum, err := c.exchange(s, &applied)
		if err == nil {
			c.apply(s.b.clock, sum, applied)
			if c.survives {
				c.mixed.take(g, sum)
			}
			return nil
		}
		if !c.survives || ctx.Err() != nil || c.group.Err() == nil { // else it would fail in every group
			return err
		}
		c.failedCards(err)
		if err := c.regroup(ctx, err); err != nil {
			return err
		}
	}
	p, err := c.past.of(s.b.clock)
	if err == nil {
		c.mixed.take(g, p.sum)
	}
	return err
}

// exchange makes the call; the gradients stay as they are where it may have to be made
// again. Else what is added is applied while the rest is: so many blocks in the end.
func (c *collective) exchange(s *sumOf, applied *int) ([]float32, error) {
	if c.memories[s.b] == nil {
		m, err := c.adder().Register(s.b.dense.Memory(), "worker dense vector")
		if err != nil {
			return nil, c.noRoom(err)
		}
		c.memories[s.b] = m
	}
	sum := s.b.dense.Grads()
	grads := sum
	if c.survives {
		if err := c.land(); err != nil {
			return nil, c.noRoom(err)
		}
		sum = mem.Float32s(c.landing.Bytes()[:4*len(sum)])
		return sum, c.reduce(grads, sum, s.absent, nil)
	}
	return sum, c.reduce(grads, sum, s.absent, func(end int) { *applied = c.applyTo(c.replica, sum, *applied, end) })
}

// reduce adds what the workers add. landed, which may be nil, is told how many floats are.
func (c *collective) reduce(grads, sum []float32, absent bool, landed func(end int)) error {
	for _, run := range c.mixed.runs(len(sum)) {
		call := coll.Call{Kind: coll.AllReduce, Type: coll.F32, Absent: absent,
			Send: mem.Bytes(grads[run.from:run.to]), Recv: mem.Bytes(sum[run.from:run.to])}
		err := bucket.Reduce(c.adder(), call, c.bucketBytes(), func(end int) {
			if landed != nil {
				landed(run.from + end/4)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applyTo applies the blocks from first on that end within so many floats, and says how
// many of all blocks are applied then.
func (c *collective) applyTo(v *dense.Vector, sum []float32, first, floats int) int {
	for ; first < len(c.blocks); first++ {
		b := c.blocks[first]
		if !c.mixed.adds(first) {
			continue
		}
		if b.Offset+b.Len > floats {
			break
		}
		v.Apply(first, sum[b.Offset:b.Offset+b.Len]) // who pushes hears what is refused
	}
	return first
}

// apply brings the replica behind a step, of whose blocks so many are applied.
func (c *collective) apply(step uint64, sum []float32, applied int) {
	if c.survives {
		c.past.add(step, c.published(), sum)
	}
	c.applyTo(c.replica, sum, applied, len(sum))
	c.replica.Publish()
	c.applied = step + 1
}

// skip goes past the steps before step to, in which nobody has dense gradients: those that
// send what a pass leaves.
func (c *collective) skip(to uint64) error {
	if c == nil || c.over {
		return nil
	}
	c.pending = &sumOf{skip: to, done: make(chan error, 1)}
	c.requests <- c.pending
	return c.wait()
}

// skipTo is skip by the goroutine that makes the calls.
func (c *collective) skipTo(to uint64) {
	for ; c.applied < to; c.applied++ {
		if c.survives {
			c.past.skip(c.applied)
		}
	}
}

func (c *collective) published() []float32 {
	return c.replica.Published().Values(0, len(c.blocks))
}

// values are those to compute a step with.
func (c *collective) values(b *batch) ([]float32, error) {
	if b.clock >= c.applied {
		return c.mixed.whole(b.dense.Values(), c.published()), nil
	}
	p, err := c.past.of(b.clock) // which this process computes again
	if err != nil {
		return nil, err
	}
	return c.mixed.whole(b.dense.Values(), p.before), nil
}

// start begins to add the batch's dense gradients to the other workers'.
func (c *collective) start(b *batch) {
	c.pending = &sumOf{b: b, absent: b.examples() == 0, done: make(chan error, 1)}
	c.requests <- c.pending
}

// push waits for the sum and pushes it to the lanes that are this worker's.
func (c *collective) push(b *batch) error {
	call := &b.pushDense
	if c.mixed != nil {
		call = &b.pushSum
		if err := c.w.client.PushDenseTo(b.dense, b.clock, c.mixed.pushed, b.examples() > 0, &b.pushDense); err != nil {
			return err
		}
	}
	if err := c.sum(b); err != nil {
		return err
	}
	if c.last != nil { // lanes must not add two steps' sums before they apply them
		if err := c.w.client.Wait(c.last); err != nil {
			return err
		}
	}
	others := c.w.job.others()
	if others == client.NoPushes {
		c.last = call
	}
	return c.w.client.PushDenseSum(b.dense, b.clock, c.mixed.added(), c.w.pushesSum, others, call)
}

// pushesTo says whether this worker pushes to the i-th of the lanes that have dense
// values.
func (w *worker) pushesTo(i int) bool {
	if w.halved != nil { // the dense ranks do
		return false
	}
	return w.collective == nil || w.job.others() == client.AbsentPushes || w.pushesSum(i)
}

// pushesSum says whether this worker gives the sum of all workers to the i-th of them.
func (w *worker) pushesSum(i int) bool {
	owner := i % w.job.Workers
	if w.carriers != nil {
		owner = w.carriers[owner]
	}
	return owner == w.rank.Index
}

// others is what a worker does for the lanes to which another gives the sum.
func (j *Job) others() client.Others {
	if j.Sync == BSP {
		return client.AbsentPushes
	}
	return client.NoPushes
}

// sum waits until the batch's dense gradients are all workers'.
func (c *collective) sum(b *batch) error {
	if err := c.wait(); err != nil {
		return fmt.Errorf("train: step %d: %w", b.clock+1, err)
	}
	return nil
}

// wait handles what servers answer meanwhile: another worker may wait for that.
func (c *collective) wait() error {
	defer c.w.rank.Stall.Begin(stall.Barrier, "the other workers", "to add dense gradients", nil)()
	for {
		select {
		case err := <-c.pending.done:
			return err
		case <-c.ended:
			return context.Canceled
		case <-time.After(pollEvery):
			if err := c.w.pollAny(); err != nil {
				return err
			}
		}
	}
}

const pollEvery = time.Millisecond

// DenseSums is how the workers of --dense allreduce or mixed added gradients.
type DenseSums struct {
	VectorBytes int `json:"vector_bytes"`
	// BucketBytes is how long the calls were that added it, about; 0: it was one call.
	BucketBytes int `json:"bucket_bytes,omitempty"`
	// Buckets is what was measured for that; nil: it was told, or there was no choice.
	Buckets []bucket.Tried `json:"buckets,omitempty"`
	// Hosts are workers whose gradients were added inside their host before those of
	// other hosts; nil: all were added at once.
	Hosts [][]int `json:"hosts,omitempty"`
	// Groups is how often the workers have met: more than once where some died.
	Groups uint64 `json:"groups"`
	// NCCL is what added where the job asks for it, or why the ring did.
	NCCL *DenseNCCL `json:"nccl,omitempty"`
	// Mixed is how --dense mixed split the vector.
	Mixed *MixedUse `json:"mixed,omitempty"`
}

// use is nil where the servers add.
func (c *collective) use() *DenseSums {
	if c == nil {
		return nil
	}
	u := &DenseSums{VectorBytes: 4 * c.floats(), Mixed: c.mixed.use()}
	c.mu.Lock()
	defer c.mu.Unlock()
	u.Groups, u.NCCL = c.met, c.cards.use()
	u.BucketBytes, u.Buckets = c.bucketBytes(), c.tried
	if c.group != nil && !c.cards.add() {
		most := 4 * c.mixed.longest(c.floats())
		if u.BucketBytes > 0 {
			most = min(most, u.BucketBytes)
		}
		u.Hosts = c.group.Parts(most)
	}
	return u
}

// checkedName is the gathering behind which nobody adds dense gradients any more.
const checkedName = "checked"

// check holds the replica against what the servers have in the end. No worker goes on
// before all have: the first may put another epoch's values there. So who goes on for one
// that had checked does not.
func (c *collective) check(ctx context.Context) error {
	if c == nil {
		return nil
	}
	said, err := c.w.said(ctx, checkedName)
	if err != nil {
		return err
	}
	if !c.over && said == nil {
		if err := c.compare(); err != nil {
			return err
		}
	}
	_, err = gather(ctx, c.w, checkedName, true)
	if err == nil && !c.over {
		c.finishCards()
	}
	return err
}

// compare is check of this worker's own values.
func (c *collective) compare() error {
	b := c.w.all[0]
	b.clock = c.w.clock
	if err := c.w.pullDense(b); err != nil {
		return err
	}
	c.mu.Lock()
	met := c.met
	c.mu.Unlock()
	mine, theirs := c.published(), b.dense.Values()
	for i, block := range c.blocks {
		if !c.mixed.adds(i) {
			continue
		}
		at, end := block.Offset, block.Offset+block.Len
		if !slices.Equal(mem.Bytes(mine[at:end]), mem.Bytes(theirs[at:end])) {
			return fmt.Errorf("train: --dense %s: block %d of %d of the dense values is not here what it is at the servers, after %d steps and %d groups: please report this; train with --dense %s",
				c.w.job.Dense, i, len(c.blocks), c.w.pos.Steps, met, DensePS)
		}
	}
	return nil
}

// close withdraws the batches' memory, before they are closed.
func (c *collective) close() error {
	if c == nil {
		return nil
	}
	c.stop()
	c.mu.Lock()
	g := c.group
	c.mu.Unlock()
	var errs []error
	if g != nil {
		errs = append(errs, g.Close()) // which ends a call that is under way
	}
	c.running.Wait()
	errs = append(errs, c.leave())
	if left := c.w.rank.Legacy; left != nil && c.replica != nil {
		left.dense = legacyDense{c.replica, c.applied, c.past}
	} else if c.replica != nil {
		errs = append(errs, c.replica.Close())
	}
	return errors.Join(append(errs, c.member.Close())...)
}

// reduces says whether workers add dense gradients among themselves, all or some.
func (j *Job) reduces() bool { return j.Dense == DenseAllReduce || j.Dense == DenseMixed }

// validateDense checks what --dense allreduce or mixed asks of a job.
func (j *Job) validateDense() error {
	if err := j.validateCollective(); err != nil {
		return err
	}
	if j.DenseBucket != nil && *j.DenseBucket < 0 {
		return fmt.Errorf("train: buckets of %d bytes of dense gradients, want 0 for one call, or more", *j.DenseBucket)
	}
	switch j.Dense {
	case "", DensePS, DenseAllReduce:
		return nil
	case DenseMixed:
		return j.validateMixed()
	}
	return fmt.Errorf("train: dense %q, must be %s, %s or %s", j.Dense, DensePS, DenseAllReduce, DenseMixed)
}
