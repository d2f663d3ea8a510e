package whole

import (
	"context"
	"errors"
	"io"
	"time"

	"psrt/bench/rival"
	"psrt/csrc/probe"
	"psrt/sched/dataset"
	"psrt/sched/train"
	"psrt/sched/train/metric"
	"psrt/sched/train/model"
)

// classic is a worker of the classic kind: it pulls a batch's rows, computes, pushes
// their gradients, and then begins the next. Reading is ahead of it, by the reader's
// goroutines, as numbering rows is by one of its own. Its dense parameters never
// travel. Without a server it computes on rows that stand where they are.
type classic struct {
	d      *data
	server *rival.Client // nil: there is none
	dense  []float32
	scr    *model.Scratch
	values []float32 // of the batch's rows
	grads  []float32
	seen   []bool // rows that have a gradient
	sums   []float32
	leaves []model.LeafGrad
	acc    *metric.Accumulator
}

// numbered is a step with its rows numbered.
type numbered struct {
	step *dataset.Step
	occ  [][]int32 // by leaf: occurrence -> leaf-unique number
	uniq [][]int32 // by leaf: leaf-unique -> the batch's row
	keys []uint64  // the batch's
	err  error
}

// ahead is how many steps are numbered before they are begun.
const ahead = 2

func newClassic(d *data, server *rival.Client) (*classic, error) {
	c := &classic{d: d, server: server, dense: make([]float32, d.model.Layout().Total), sums: make([]float32, d.model.Layout().Total),
		scr: d.model.NewScratch(d.share().Micro), leaves: make([]model.LeafGrad, d.share().Leaves()), acc: metric.NewAccumulator(model.CTR)}
	return c, d.model.InitDense(c.dense)
}

// outcome is what a turn of any side gives.
type outcome struct {
	seconds float64
	loss    float64 // log loss of the rows as they were met
	rows    int     // of all steps, each step's unique ones
	digest  string  // of the trainer's
	packed  *train.CompressUse
	moved   uint64 // bytes between the trainer's servers and workers
	waits   waits  // of the trainer
}

// waits are shares of a training in which the line of its workers computed, and stood still
// for values and for pushes.
type waits struct{ compute, values, pushes float64 }

// train makes one pass.
func (c *classic) train(ctx context.Context) (out outcome, err error) {
	r, err := c.d.src.NewReader(ctx, c.d.share(), dataset.ReaderOptions{Mode: dataset.Queue})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := make(chan numbered, ahead)
	began := time.Now()
	go number(ctx, r, in)
	defer func() {
		cancel()
		for n := range in { // its goroutine has the reader until then
			if n.err == nil {
				n.step.Release()
			}
		}
	}()
	for n := range in {
		if n.err != nil {
			return out, n.err
		}
		if err := c.step(&n); err != nil {
			return out, err
		}
		out.rows += len(n.keys)
		n.step.Release()
	}
	out.seconds = time.Since(began).Seconds()
	if loss := c.acc.Report().LogLoss; loss != nil {
		out.loss = *loss
	}
	return out, context.Cause(ctx)
}

// number reads steps and numbers their rows until the end of the pass.
func number(ctx context.Context, r *dataset.Reader, to chan<- numbered) {
	defer close(to)
	var dedup probe.DedupScratch
	for {
		step, err := r.Next()
		if err == io.EOF {
			return
		}
		n := numbered{step: step, err: err}
		if err == nil {
			n.number(&dedup)
		}
		select {
		case to <- n:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (n *numbered) number(dedup *probe.DedupScratch) {
	var all []uint64
	for i := range n.step.Leaves {
		keys := n.step.Leaves[i].Keys
		occ, uniq := make([]int32, len(keys)), make([]uint64, len(keys))
		if len(keys) > 0 {
			uniq = uniq[:probe.Dedup(dedup, keys, occ, uniq)]
		}
		n.occ, n.uniq = append(n.occ, occ), append(n.uniq, make([]int32, len(uniq)))
		all = append(all, uniq...)
	}
	places := make([]int32, len(all))
	n.keys = make([]uint64, len(all))
	n.keys = n.keys[:probe.Dedup(dedup, all, places, n.keys)]
	for i := range n.uniq {
		places = places[copy(n.uniq[i], places):]
	}
}

func (c *classic) step(n *numbered) error {
	dim := c.d.model.RowDim()
	floats := len(n.keys) * dim
	if cap(c.values) < floats {
		c.values, c.grads = make([]float32, floats+floats/4), make([]float32, floats+floats/4)
	}
	values, grads := c.values[:floats], c.grads[:floats]
	if c.server != nil {
		if err := c.server.Pull(n.keys, dim, values); err != nil {
			return err
		}
	}
	if err := c.compute(n, values, grads); err != nil {
		return err
	}
	if c.server == nil {
		return nil
	}
	for i, g := range c.sums {
		c.dense[i] -= rate * g
	}
	return c.server.Push(n.keys, dim, grads)
}

// compute is the trainer's arithmetic: leaf by leaf, and the leaves' sum.
func (c *classic) compute(n *numbered, values, grads []float32) error {
	dim, share := c.d.model.RowDim(), c.d.share()
	if cap(c.seen) < len(n.keys) {
		c.seen = make([]bool, len(n.keys)+len(n.keys)/4)
	}
	seen := c.seen[:len(n.keys)]
	clear(seen)
	clear(c.sums)
	for i := range n.step.Leaves {
		b, g := &n.step.Leaves[i], &c.leaves[i]
		if b.Len() == 0 {
			continue
		}
		g.Rows, g.Preds = sized(g.Rows, len(n.uniq[i])*dim), sized(g.Preds, b.Len())
		g.Dense = sized(g.Dense, len(c.dense))
		in := model.Leaf{Batch: b, Occ: n.occ[i], Uniq: n.uniq[i], Matrix: values, Dense: c.dense, Scale: 1 / float32(n.step.Rows),
			FirstRow: n.step.FirstRow + uint64(i*share.Micro)}
		if err := c.scr.Step(&in, g); err != nil {
			return err
		}
		for j, row := range n.uniq[i] {
			from, to := g.Rows[j*dim:(j+1)*dim], grads[int(row)*dim:][:dim]
			if !seen[row] {
				seen[row] = true
				copy(to, from)
				continue
			}
			for k, v := range from {
				to[k] += v
			}
		}
		for k, v := range g.Dense {
			c.sums[k] += v
		}
		c.acc.Add(g.Preds, b.Labels)
	}
	return nil
}

// sized is s with length n; contents are lost where it grows.
func sized(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n, n+n/4)
	}
	return s[:n]
}
