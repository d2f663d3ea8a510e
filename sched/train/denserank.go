package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/csrc/kernels"
	"psrt/sched/heter"
	"psrt/sched/stall"
	"psrt/sched/train/model"
	"psrt/sched/tree"
	"psrt/sched/usage"
)

// denseRank computes the dense half of the leaves that workers send it. It has no data
// and no rows; what it does next is what comes next:
//
//	a leaf of step s       waits until the dense values of s are here
//	the values of s        all leaves that wait for them are computed and answered
//	all leaves of a group  their dense gradients are added up along the tree and pushed
//
// In BSP a group is all of its leaves of a step. Else each worker's leaves of a step are
// one: workers may be steps apart, and none of them waits here for another. A leaf is
// computed with values that were asked for at its step's clock or a later one, so they
// lack no more than the clock allows. In which order groups are pushed then is seen at the
// servers alone; see denseowed.go.
type denseRank struct {
	*worker
	hub     *heter.Hub
	values  *batch // those to compute with
	next    *batch // being pulled; nil: none
	spare   []*batch
	groups  map[groupKey]*group
	grads   [][]float32 // not in use
	waiting []heter.Arrival
	done    []uint64 // by link: its steps that are pushed
	seen    uint64   // the newest step of which a leaf came
	owed    owed
	asked   []heter.Flushing // that wait
	busy    time.Duration
	layered layered
	lacks   time.Time // since when leaves wait for values, see awaitValues
}

// groupKey is a step, and where workers need not keep it, whose; nil is of all.
type groupKey struct {
	step uint64
	of   *heter.Link
}

// group is leaves whose gradients are pushed together.
type group struct {
	first, last int // leaves
	left        int
	grads       [][]float32 // by leaf, nil where it has no examples
	examples    int
	rows        int // of the global batch
	epoch       int
}

// RunDense is a dense rank's life: connect, wait for the workers, compute until they say
// that it is over.
func RunDense(ctx context.Context, job *Job, rank Rank) error {
	if rank.Generation > 1 {
		if _, left, err := denseLeft(ctx, rank.Coord, rank.Index-job.Workers); left || err != nil {
			return err
		}
	}
	w, err := newWorker(ctx, job, &rank, nil)
	if err != nil {
		return err
	}
	defer w.close()
	d := &denseRank{worker: w, groups: map[groupKey]*group{}}
	if over, err := d.takeOver(ctx); err != nil {
		return err
	} else if over {
		return d.report(ctx)
	}
	d.openDevice() // a driver compiles kernels for seconds: not while workers wait
	if err := errors.Join(d.serve(ctx), d.closeDevice()); err != nil {
		var gone *heter.LostError
		if errors.As(err, &gone) {
			return &PeerLost{gone.Peer + " is gone", gone.Cause}
		}
		return err
	}
	return nil
}

// serve is what workers see.
func (d *denseRank) serve(ctx context.Context) error {
	if err := d.listen(ctx); err != nil {
		return err
	}
	defer d.hub.Close()
	return d.run(ctx)
}

// listen tells the workers where to come, and waits for them.
func (d *denseRank) listen(ctx context.Context) error {
	number := d.rank.Index - d.job.Workers
	shapes, depth := map[int]heter.Shape{}, 0
	for worker := range d.job.Workers {
		s, some, err := d.job.linkShape(d.model, worker, number)
		if err != nil {
			return err
		}
		if some {
			shapes[worker] = s
			depth += s.Depth()
		}
	}
	opt := d.job.hubOptions(d.rank, "worker")
	if opt.Again != nil {
		opt.Again.From = map[int]uint64{}
		for worker := range shapes {
			opt.Again.From[worker] = d.doneBefore(worker)
		}
	}
	d.hub = heter.New(d.rank.Host, depth, opt)
	listen := d.rank.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	addr, err := d.hub.Listen(listen, shapes)
	if err == nil {
		_, err = d.rank.Coord.Put(ctx, denseKey(number), []byte(addr), 0)
	}
	if err == nil && d.rank.Generation < 2 { // else they come when they find the process before gone
		coming, cancel := context.WithTimeout(ctx, wholeTimeout) // they may have much to read before
		end := d.rank.Stall.Begin(stall.Absent, "the workers", "to send their first activations", nil)
		err = d.hub.Ready(coming)
		end()
		cancel()
	}
	if err != nil {
		return errors.Join(err, d.hub.Close())
	}
	d.done = make([]uint64, len(d.hub.Links()))
	for i, l := range d.hub.Links() {
		d.done[i] = d.doneBefore(l.Number)
	}
	return nil
}

func (d *denseRank) run(ctx context.Context) error {
	for range cap(d.free) {
		b, err := d.takeBatch()
		if err != nil {
			return err
		}
		d.spare = append(d.spare, b)
	}
	if err := d.pullFirst(); err != nil {
		return err
	}
	for !d.hub.Over() || len(d.waiting) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := d.turn(); err != nil {
			return err
		}
	}
	return d.leave(ctx)
}

// turn does what there is to do, or waits a moment.
func (d *denseRank) turn() error {
	if err := d.flush(); err != nil {
		return err
	}
	came, err := d.hub.Poll()
	if err != nil {
		return err
	}
	if err := d.renewed(); err != nil {
		return err
	}
	for i := range came {
		if err := d.take(&came[i]); err != nil {
			return err
		}
	}
	if err := d.client.Poll(); err != nil {
		return err
	}
	if d.next != nil && d.next.pullDense.Done() {
		if err := d.turnOver(); err != nil {
			return err
		}
		if err := d.pushOwed(); err != nil {
			return err
		}
	}
	if some, err := d.computeReady(); some || err != nil {
		return err
	}
	return d.await()
}

// flush answers workers that ask whether all of some steps is pushed. A rank that has taken
// another's place may have to push some of it first, whose leaves come again.
func (d *denseRank) flush() error {
	d.asked = append(d.asked, d.hub.Flushes()...)
	pushed := func(f heter.Flushing) bool { return d.done[d.linkOf(f.Link)] >= f.Step }
	if !slices.ContainsFunc(d.asked, pushed) {
		return nil
	}
	for _, b := range d.all {
		if err := d.settle(b); err != nil {
			return err
		}
	}
	d.asked = slices.DeleteFunc(d.asked, func(f heter.Flushing) bool {
		if !pushed(f) {
			return false
		}
		close(f.Done)
		return true
	})
	return nil
}

// take puts a leaf into its group.
func (d *denseRank) take(a *heter.Arrival) error {
	h := &a.Head
	if h.Kind != kindTrain || int(h.Examples) > d.share.Micro || int(h.Floats) != int(h.Examples)*linkFloats(d.model) || h.Rows == 0 && h.Examples > 0 {
		return fmt.Errorf("train: %s sends a leaf of %d examples and %d floats for step %d: run the same psrt everywhere", a.Link.Peer(), h.Examples, h.Floats, h.Step)
	}
	pushed := h.Step < d.done[d.linkOf(a.Link)]
	if pushed || a.Link.Answered(a.Slot, a.Leaf, h.Step) {
		if over, err := d.again(a); over || err != nil {
			return err
		}
	}
	key := d.keyOf(a)
	if !d.owed.before(a) {
		d.seen = max(d.seen, h.Step)
	}
	if !pushed && d.groups[key] == nil {
		g := &group{first: d.share.First, last: d.share.Last}
		if key.of != nil {
			g.first, g.last = key.of.Shape.First, key.of.Shape.Last
		}
		g.left = g.last - g.first
		g.grads = make([][]float32, g.left)
		d.groups[key] = g
	}
	for i := range d.waiting { // which came over a connection that is lost: renewed would drop it
		if w := &d.waiting[i]; w.Link == a.Link && w.Slot == a.Slot && w.Leaf == a.Leaf && w.Head.Step == h.Step {
			*w = *a
			return nil
		}
	}
	d.waiting = append(d.waiting, *a)
	return nil
}

func (d *denseRank) keyOf(a *heter.Arrival) groupKey {
	if d.job.bsp() {
		return groupKey{a.Head.Step, nil}
	}
	return groupKey{a.Head.Step, a.Link}
}

func (d *denseRank) linkOf(l *heter.Link) int {
	for i, x := range d.hub.Links() {
		if x == l {
			return i
		}
	}
	return 0
}

// pull asks for the values at a clock.
func (d *denseRank) pull(clock uint64) error {
	if d.next != nil {
		return nil
	}
	if len(d.spare) == 0 {
		return errors.New("train: no memory is left to pull dense values to: please report this")
	}
	b := d.spare[0]
	d.spare = d.spare[1:]
	if err := d.settle(b); err != nil {
		return err
	}
	b.clock, d.next = clock, b
	d.valuesGo(b)
	return d.client.PullDense(b.dense, clock, 0, &b.pullDense)
}

// turnOver goes on with the values that have come.
func (d *denseRank) turnOver() error {
	if err := d.client.Wait(&d.next.pullDense); err != nil {
		return err
	}
	if d.values != nil {
		d.spare = append(d.spare, d.values)
	}
	d.values, d.next = d.next, nil
	d.lacksNothing()
	return nil
}

// computeReady computes the leaves for which the values are here, as many at a time as
// there are threads, so that no answer waits for another leaf; or as a device is given.
func (d *denseRank) computeReady() (some bool, err error) {
	if d.values == nil {
		return false, nil
	}
	var ready []heter.Arrival
	keep := d.waiting[:0]
	for _, a := range d.waiting {
		if d.computable(&a) && len(ready) < d.most() {
			ready = append(ready, a)
		} else {
			keep = append(keep, a)
		}
	}
	d.waiting = keep
	if len(ready) == 0 {
		return false, nil
	}
	began := time.Now()
	errs := make([]error, d.pool.threads)
	grads := make([][]float32, len(ready))
	for i, a := range ready {
		if a.Head.Examples > 0 {
			grads[i] = d.gradient()
		}
	}
	if !d.onDevice(ready, d.values, grads) {
		d.pool.each(len(ready), func(thread, i int) {
			if err := d.leaf(&ready[i], d.values, grads[i], d.scr[thread]); err != nil {
				errs[thread] = err
			}
		})
	}
	d.busy += time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return true, err
	}
	for i := range ready {
		if err := d.answer(&ready[i], grads[i]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// gradient is memory for one leaf's.
func (d *denseRank) gradient() []float32 {
	if n := len(d.grads); n > 0 {
		g := d.grads[n-1]
		d.grads = d.grads[:n-1]
		return g
	}
	return make([]float32, d.model.Layout().Total)
}

// leaf computes one leaf with some values, on the processor.
func (d *denseRank) leaf(a *heter.Arrival, values *batch, grad []float32, scr *model.Scratch) error {
	in, out, some := d.halves(a, values, grad)
	if !some {
		return nil
	}
	return scr.StepDense(&in, &out)
}

// answer sends a leaf back, and pushes its group when that is whole.
func (d *denseRank) answer(a *heter.Arrival, grad []float32) error {
	if err := a.Link.Send(a.Slot, a.Leaf, a.Head); err != nil {
		return err
	}
	key := d.keyOf(a)
	if key.of != nil && key.step < d.done[d.linkOf(a.Link)] {
		if grad != nil {
			d.grads = append(d.grads, grad) // nobody's: it is pushed already
		}
		return nil
	}
	d.meter.examples.Add(int64(a.Head.Examples))
	g := d.groups[key]
	g.grads[a.Leaf-g.first] = grad
	g.examples += int(a.Head.Examples)
	g.rows, g.epoch = max(g.rows, int(a.Head.Rows)), int(a.Head.Epoch)
	if g.left--; g.left > 0 {
		return nil
	}
	if len(d.owed.pushes) > 0 {
		return d.pushOwed()
	}
	return d.push(key, g, true)
}

// push adds a group's gradients up and pushes the sum. The clock moves on when all
// workers have passed a step here, where it is free to.
func (d *denseRank) push(key groupKey, g *group, ticks bool) error {
	delete(d.groups, key)
	b := d.values
	if err := d.settle(b); err != nil {
		return err
	}
	began := time.Now()
	sum, merges := b.dense.Grads(), kernelMerges(tree.Merges(g.first, g.last))
	d.pool.ranges(len(sum), func(from, to int) {
		srcs := make([][]float32, len(g.grads))
		for i, x := range g.grads {
			if x != nil {
				srcs[i] = x[from:to]
			}
		}
		kernels.TreeSum(sum[from:to], srcs, merges)
	})
	for _, x := range g.grads {
		if x != nil {
			d.grads = append(d.grads, x)
		}
	}
	if key.of != nil {
		d.wholeAverages(sum, g.examples, g.rows)
	}
	d.busy += time.Since(began)
	if err := d.own(); err != nil {
		return err
	}
	if err := d.pushSum(b, key, g.examples > 0); err != nil {
		return err
	}
	for i, l := range d.hub.Links() {
		if key.of == nil || key.of == l {
			d.done[i] = key.step + 1
		}
	}
	if ticks && d.passed() > d.clock {
		if err := d.tick(); err != nil {
			return err
		}
	}
	return d.pullNext(d.seen + 1)
}

func (d *denseRank) pushSum(b *batch, key groupKey, some bool) error {
	if key.of == nil {
		return d.client.PushDense(b.dense, d.clock, some, &b.pushDense)
	}
	return d.client.PushDensePart(b.dense, d.clock, key.of.Number, some, &b.pushDense)
}

// tick ends a step.
func (d *denseRank) tick() error {
	b := d.values
	if err := d.client.Wait(&b.push); err != nil {
		return err
	}
	if err := d.client.Push(b.rows, d.clock, true, &b.push); err != nil {
		return err
	}
	d.clock++
	d.live.note(d.worker)
	return nil
}

// pullNext asks for the values to go on with: in BSP those of the next step that is pushed
// here, for a worker without examples in a step asks no server for rows, and so may be
// ahead by that step; else those of a clock, or a later one.
func (d *denseRank) pullNext(clock uint64) error {
	switch {
	case d.job.bsp():
		clock = 0
	case d.rank.Generation > 1 && d.job.mode(DenseTable).Most >= 0:
		clock = d.oldestWaiting(clock)
	}
	return d.pull(max(d.clock, clock))
}

// passed is how many steps all workers have behind them here.
func (d *denseRank) passed() uint64 {
	least := d.done[0]
	for _, n := range d.done {
		least = min(least, n)
	}
	return least
}

// settle waits until a batch's pushes are answered: its memory is free then.
func (d *denseRank) settle(b *batch) error {
	if err := errors.Join(d.client.Wait(&b.pushDense), d.client.Wait(&b.push)); err != nil {
		return err
	}
	if n := b.pushDense.Refused; n > 0 {
		return fmt.Errorf("train: %s, step %d since the start: the gradients of %d rows of the dense parameters are not finite; lower --lr or look for extreme values in the data", d.job.MemberName(d.rank.Index), b.clock+1, n)
	}
	return nil
}

// await waits for a leaf, or for the values of those that are here. In BSP leaves of a later
// step wait for some of this one.
func (d *denseRank) await() error {
	if len(d.waiting) > 0 && d.next == nil && !d.job.bsp() && len(d.owed.pushes) == 0 {
		return d.pullNext(d.seen)
	}
	if len(d.waiting) > 0 && d.next != nil {
		return d.awaitValues()
	}
	d.lacksNothing() // leaves may have been dropped
	until := time.Now().Add(pollInput)
	if len(d.waiting) > 0 { // for leaves of an earlier step
		until = time.Now().Add(pollEvery)
	}
	return d.hub.Wait(until)
}

// awaitValues is await where the values of leaves that are here have been asked for, and
// waits as long as a worker would. In BSP they wait for nothing that this rank has to do, but
// where ranks are replaced: then they may wait for a worker's heir, which asks this rank for
// what it has answered before. Else other leaves may come before them.
func (d *denseRank) awaitValues() error {
	if d.job.bsp() && !d.job.Survives() {
		return d.client.Wait(&d.next.pullDense)
	}
	now := time.Now()
	if d.lacks.IsZero() {
		d.lacks = now
	}
	if limit := d.rank.timeout(); now.Sub(d.lacks) > limit {
		return fmt.Errorf("train: %s: servers have not answered with the dense values of step %d for %v%s",
			d.job.MemberName(d.rank.Index), d.next.clock+1, limit, d.client.Missing(&d.next.pullDense))
	}
	d.client.Waiting(true)
	if err := d.client.Look(); err != nil {
		return err
	}
	if !d.job.bsp() {
		return d.hub.Wait(now.Add(pollEvery))
	}
	d.client.Rest(now.Add(pollInput))
	return nil
}

func (d *denseRank) lacksNothing() {
	d.lacks = time.Time{}
	d.client.Waiting(false)
}

// leave is the end: the workers have all they need.
func (d *denseRank) leave(ctx context.Context) error {
	if d.next != nil {
		if err := d.client.Wait(&d.next.pullDense); err != nil {
			return err
		}
	}
	for _, b := range d.all {
		if err := d.settle(b); err != nil {
			return err
		}
	}
	if err := d.report(ctx); err != nil {
		return err
	}
	if err := d.hub.Finish(d.said()); err != nil {
		return err
	}
	return d.hub.Farewell(d.rank.timeout())
}

// said is what this rank tells of itself.
func (d *denseRank) said() denseReport {
	rss, cpu := usage.Process()
	return denseReport{RSS: rss, CPU: cpu, Busy: d.busy, Reached: d.client.Transports(), Took: d.takeovers(), Layers: d.layered.told}
}

// report leaves the servers, and writes down what this rank tells for workers that miss it.
func (d *denseRank) report(ctx context.Context) error {
	said := d.said()
	if err := d.client.Leave(ctx); err != nil {
		return err
	}
	if d.rank.Generation == 0 {
		return nil
	}
	text, err := json.Marshal(said)
	if err == nil {
		_, err = d.rank.Coord.Put(ctx, denseLeftKey(d.rank.Index-d.job.Workers), text, 0)
	}
	return err
}
