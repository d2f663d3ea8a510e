package train

import (
	"context"
	"errors"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/dataset"
	"psrt/sched/densemap"
	"psrt/sched/exchange"
	"psrt/sched/kv"
	"psrt/sched/metrics"
	"psrt/sched/pipe"
	"psrt/sched/pipe/settle"
	"psrt/sched/stall"
	"psrt/sched/train/metric"
	"psrt/sched/train/model"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// Rank is what a rank is given beside the job.
type Rank struct {
	Index int // among the servers, or among the workers
	// Generation counts the processes that have had a worker's number, from 1; 0 does
	// not say.
	Generation int
	// BeganAgain: the generation before was of the same process; see BeginAgain. Legacy is
	// what one leaves to the next; nil where there is none.
	BeganAgain bool
	Legacy     *Legacy
	Coord      coord.Coordinator
	Host       *dial.Host
	Listen     string // servers: control address
	Node       int    // NUMA node, -1 any
	// Label and Rack are what a server fails together with. A worker's label is its
	// host, in which it adds dense gradients before those of other hosts; "": the machine.
	Label, Rack string
	// Weight is a server's share of the groups, relative to the others'; 0 means 1.
	Weight float64
	// Timeout bounds every wait for other ranks; 0 means two minutes.
	Timeout time.Duration
	// Events receives progress; may be nil. Worker 0 reports for all.
	Events func(Event)
	// Metrics is what the rank shows while it runs. May be nil.
	Metrics *metrics.Rank
	// Stall is told what the rank waits for. May be nil.
	Stall *stall.Watch
	// OnHungUp is server.Config's.
	OnHungUp func(worker int, back func() bool)
	// Reach is how the rank reaches servers of psrt serve, and what is told of waits for
	// them.
	Reach kv.Config
}

func (r *Rank) timeout() time.Duration {
	if r.Timeout == 0 {
		return 2 * time.Minute
	}
	return r.Timeout
}

func (r *Rank) emit(e Event) {
	if r.Events != nil {
		r.Events(e)
	}
}

// worker is one worker rank.
type worker struct {
	job    *Job
	rank   *Rank
	model  *model.Model
	spec   table.Spec
	ranges []densemap.Range
	// averages marks the dense values that are running averages, nil: none.
	averages []bool

	share  dataset.Share
	client *client.Client
	pool   *pool
	limit  *dataset.Limit // of the threads that parse what is trained
	stages *affinity      // nil: their threads run anywhere
	scr    []*model.Scratch
	leaves []model.Leaf // by leaf of the step being computed
	// extremes are by leaf the largest values of the running pass.
	extremes []extreme
	red      reducer
	blocks   int // of the dense vector
	line     pipe.Line
	free     chan *batch
	all      []*batch
	clock    uint64
	meter    meter
	live     live
	shown    *metrics.Training // worker 0's
	runID    string            // the id of the run, worker 0's, where the job is checkpointed
	saver    *saver            // worker 0's, where the job is checkpointed
	keeper   *keeper           // worker 0's, where features have a lifecycle
	lived    *lifeCard         // what the process before this one wrote down; nil: nothing
	pos      position          // before the next step
	files    trainedOn         // as this process found them
	// inherited is nil where no process had the number before; took are the takeovers
	// of it so far, owns is to be done before the first push of such a process.
	inherited *inherited
	took      took
	owns      func() error
	// leftSent is how many of the steps that send what the running pass leaves the processes
	// before have pushed.
	leftSent int
	// Of a stream: feed says what it consists of, passBegan is the entry with which the
	// running pass began.
	feed      feed
	passBegan int
	pushed    time.Time // when the servers had all of the pass that was over last
	// epochRows is the length of the last epoch, for the progress line.
	epochRows int64
	// collective is nil where dense gradients are pushed by every worker.
	collective *collective
	// slots counts beside a pass's or an evaluation's metrics; nil where nobody asks.
	slots *metric.Slots
	names *dataset.Names // of the slots
	// rows is where other workers' rows come from, nil where none do.
	rows *exchange.Member
	// carried is nil where this rank pulls and pushes for itself alone.
	carried *carried
	// carriers is by worker who pulls and pushes for it, nil where all do themselves.
	carriers []int
	// unsent is nil where checkpoints have nothing of what workers keep.
	unsent *unsent
	// spans says how many steps' rows are sent together, for who goes on for this worker.
	spans *spans
	// halved is nil where this rank computes both halves of the model.
	halved *halved
}

// RunWorker is a worker rank's life: connect, train, evaluate, leave. Every
// worker returns the same figures; one that goes on for a process that had left
// already has none.
// A *BeginAgain says that it is to be run again, under the next generation.
func RunWorker(ctx context.Context, job *Job, rank Rank) (*Result, error) {
	life, give := context.WithCancelCause(ctx)
	defer give(nil)
	res, err := runWorker(life, job, rank, give)
	if err != nil && ctx.Err() == nil && life.Err() != nil {
		return nil, context.Cause(life) // what ended it explains more than what that broke
	}
	return res, err
}

func runWorker(ctx context.Context, job *Job, rank Rank, give func(error)) (*Result, error) {
	if job.Predict != nil {
		return runPredictor(ctx, job, rank)
	}
	if over, err := hadLeft(ctx, job, &rank); over || err != nil {
		return nil, err
	}
	w, err := newWorker(ctx, job, &rank, give)
	if err != nil {
		return nil, err
	}
	defer w.close()
	return w.run(ctx)
}

func newWorker(ctx context.Context, job *Job, rank *Rank, give func(error)) (*worker, error) {
	m, err := model.New(job.Model)
	if err != nil {
		return nil, err
	}
	w := &worker{job: job, rank: rank, model: m, stages: newAffinity("", rank.Node, job.Data), spec: job.table(m), ranges: denseRanges(m), averages: averagesOf(m)}
	if w.share, err = job.share(rank.Index); err != nil {
		return nil, err
	}
	cfg := client.Config{Worker: rank.Index, Generation: rank.Generation, Host: rank.Host, Timeout: rank.timeout(), Node: rank.Node, Read: job.read(), Compress: job.Compress, Even: job.evenPushes(), Hot: job.Hot, Latencies: w.live.latencies(rank), Stall: rank.Stall, Audit: w.recorder()}
	if err := servers(ctx, job, rank, &cfg); err != nil {
		return nil, err
	}
	if w.carried, err = w.findCarrier(ctx, give); err != nil {
		return nil, err
	}
	if w.client, err = w.carried.open(ctx, cfg); err != nil {
		w.carried.leave()
		return nil, err
	}
	blocks, err := densemap.Cut(w.ranges)
	if err != nil {
		w.close()
		return nil, err
	}
	leaves := w.share.Last - w.share.First
	w.line = job.newLine()
	w.line.Trace = job.Trace.recorder()
	if err := w.openTrace(); err != nil {
		w.close()
		return nil, err
	}
	w.blocks = len(blocks)
	w.free = make(chan *batch, job.sets(w.line.Depth.Most()))
	for range job.sets(w.line.Depth.Now()) {
		b, err := w.newBatch()
		if err != nil {
			w.close()
			return nil, err
		}
		w.free <- b
	}
	w.pool = newPool(min(job.Threads, leaves), func() { w.stages.hold(stageCompute) })
	w.limit = dataset.NewLimit(job.Threads)
	w.line.Threads = settle.NewThreads(job.Threads, w.pool.threads)
	w.line.Share = func(read, compute int) {
		w.limit.Set(read)
		w.pool.now = compute
	}
	for range w.pool.threads {
		w.scr = append(w.scr, m.NewScratch(w.share.Micro))
	}
	if w.collective, err = newCollective(ctx, w, blocks); err != nil {
		w.close()
		return nil, err
	}
	w.slots, w.names = w.newSlots(), w.job.newNames()
	w.unsent = newUnsent(ctx, w)
	w.spans = newSpans(ctx, w)
	if !job.IsDense(rank.Index) {
		w.halved = newHalved(w)
	}
	w.leaves, w.extremes = make([]model.Leaf, leaves), make([]extreme, leaves)
	w.red.merges = kernelMerges(tree.Merges(w.share.First, w.share.Last))
	rank.Metrics.Worker(w.metrics) // which reads what is above
	w.showTraining()
	rank.Metrics.Ready()
	return w, nil
}

func (w *worker) close() {
	_ = w.halved.close() // the dense ranks are gone, or have told all
	_ = w.keeper.close() // all that is committed is durable
	w.unsent.close()
	if w.saver != nil {
		_ = w.saver.close()
	}
	if w.pool != nil {
		w.pool.close()
	}
	if w.feed != nil {
		_ = w.feed.close()
	}
	_ = w.collective.close()
	w.carried.close()
	for _, b := range w.all {
		b.close()
	}
	if w.client != nil {
		w.client.Close()
	}
	w.carried.leave()
}

func (w *worker) pull(b *batch, opt client.PullOption) error {
	if w.carried != nil {
		return w.carried.pull(b, opt)
	}
	if err := w.client.Pull(b.rows, b.clock, opt, &b.pull); err != nil {
		return err
	}
	return w.client.PullDense(b.dense, b.clock, opt, &b.pullDense)
}

// compute runs the leaves and adds their gradients; tick is called between leaves.
func (w *worker) compute(b *batch, epoch int, acc *metric.Accumulator, tick func() error) error {
	if w.halved != nil {
		return w.halved.compute(b, epoch, acc, tick)
	}
	dim, denseLen := w.model.RowDim(), w.model.Layout().Total
	errs := make([]error, w.pool.threads)
	var values []float32
	if w.collective != nil {
		var err error
		if values, err = w.collective.values(b); err != nil {
			return err
		}
	}
	ticked := w.pool.ticking(tick)
	w.pool.each(len(b.step.Leaves), func(thread, i int) {
		g := b.prepare(i, dim, denseLen)
		if b.step.Leaves[i].Len() == 0 {
			g.LossSum, b.sent[i] = 0, g.Rows
			return
		}
		b.leaf(i, w.share.Micro, w.share.First, epoch, &w.leaves[i])
		if w.collective != nil {
			w.leaves[i].Dense = values
		}
		if err := w.scr[thread].Step(&w.leaves[i], g); err != nil {
			errs[thread] = err
			return
		}
		w.job.Clip.apply(g, b.step.Leaves[i].Len(), b.step.Rows, w.averages)
		b.count(i)
	})
	if err := errors.Join(append(errs, ticked())...); err != nil {
		return err
	}
	w.pool.ranges(denseLen, func(from, to int) { w.red.denseRange(b, from, to) })
	if w.collective != nil {
		w.collective.start(b)
	}
	if !w.job.mode(DenseTable).BSP() && w.collective == nil && w.carried == nil {
		w.wholeAverages(b.dense.Grads(), b.examples(), b.step.Rows)
	}
	return w.addRows(b, acc)
}

// addRows adds the leaves' gradients of rows, and counts what was predicted.
func (w *worker) addRows(b *batch, acc *metric.Accumulator) error {
	w.red.rowsIndex(b)
	w.pool.ranges(b.rows.Len(), func(from, to int) { w.red.sparse(b, from, to) })
	w.pool.each(len(b.step.Leaves), func(_, i int) { w.extremes[i].note(&b.step.Leaves[i]) })
	for i := range b.grads {
		if n := b.step.Leaves[i].Len(); n > 0 {
			acc.Add(b.grads[i].Preds[:n], b.step.Leaves[i].Labels)
			if err := CountSlots(w.slots, b.grads[i].Preds[:n], &b.step.Leaves[i]); err != nil {
				return err
			}
		}
	}
	w.meter.examples.Add(int64(b.examples()))
	return nil
}

// wholeAverages rescales the running averages in g from those of own examples to
// the whole global batch: outside BSP nobody adds the other workers' share.
func (w *worker) wholeAverages(g []float32, own, rows int) {
	if own == 0 {
		return
	}
	scale := float32(rows) / float32(own)
	for _, r := range w.ranges {
		if r.Rule == model.RuleEMA {
			for i := r.Offset; i < r.Offset+r.Len; i++ {
				g[i] *= scale
			}
		}
	}
}

func (w *worker) push(b *batch) error {
	if err := w.own(); err != nil {
		return err
	}
	if err := w.spans.settle(b.clock); err != nil {
		return err
	}
	if w.carried != nil {
		if w.collective != nil { // what is pushed is the sum
			if err := w.collective.sum(b); err != nil {
				return err
			}
		}
		return w.carried.push(b)
	}
	// The dense push goes first: the sparse one carries the tick.
	if w.collective != nil {
		if err := w.collective.push(b); err != nil {
			return err
		}
	} else if w.halved != nil {
		// The dense ranks push theirs.
	} else if err := w.client.PushDense(b.dense, b.clock, b.examples() > 0, &b.pushDense); err != nil {
		return err
	}
	return w.client.Push(b.rows, b.clock, true, &b.push)
}

func kernelMerges(ms []tree.Merge) []merge {
	out := make([]merge, len(ms))
	for i, m := range ms {
		out[i] = merge{Dst: int32(m.Dst), Src: int32(m.Src)}
	}
	return out
}
