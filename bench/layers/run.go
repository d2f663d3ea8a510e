package layers

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/rdma/mem"
	"psrt/sched/train/layers"
	"psrt/sched/train/model"
)

// Config is what is measured.
type Config struct {
	Device   string     // as layers.Open has it
	Model    model.Spec // the deep kinds
	Examples int        // of a micro-batch
	Leaves   int        // micro-batches of a call
	Rounds   int
	Seed     uint64
}

const (
	maxExamples = 1 << 16
	maxLeaves   = 64
	maxRounds   = 1000
	// furthest is what predictions may differ by where sums have other orders.
	furthest = 1e-4
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	switch {
	case c.Device == "":
		return errors.New("layers: no device: give gpu, host, the number of a GPU, or so: and a file")
	case !c.Model.Deep():
		return fmt.Errorf("layers: model %s has no layers, want %s, %s or %s", c.Model.Kind, model.WideDeep, model.DeepFM, model.DCN)
	case c.Examples < 1 || c.Examples > maxExamples:
		return fmt.Errorf("layers: micro-batches of %d examples, want 1 to %d", c.Examples, maxExamples)
	case c.Leaves < 1 || c.Leaves > maxLeaves:
		return fmt.Errorf("layers: %d micro-batches a call, want 1 to %d", c.Leaves, maxLeaves)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return fmt.Errorf("layers: %d rounds, want 1 to %d", c.Rounds, maxRounds)
	}
	return c.Model.Validate()
}

// Run measures. The caller adds to the report who it is: program and commit.
func Run(ctx context.Context, c Config) (out *report.Report, err error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	m, err := model.New(c.Model)
	if err != nil {
		return nil, err
	}
	device, err := layers.Open(c.Device, 0, m, c.Examples, c.Leaves)
	if err != nil {
		return nil, fmt.Errorf("%w; --device %s measures its kernels as C", err, layers.Host)
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	runtime.LockOSThread() // for the CPU time of this loop alone
	defer runtime.UnlockOSThread()
	b := newBed(&c, m, device)
	if err := device.Values(b.dense); err != nil {
		return nil, err
	}
	var walls [2][]float64
	game := turns.Game{Op: "forward and backward", Bytes: b.bytes(), Messages: c.Leaves, Rounds: c.Rounds,
		Ours: timed(&walls[0], func() error { return device.Step(b.onDevice) }), Limit: timed(&walls[1], b.processor)}
	row, err := game.Play(ctx)
	if err != nil {
		return nil, err
	}
	if row.Checksum, err = b.check(); err != nil {
		return nil, err
	}
	rate := func(walls []float64) float64 {
		slices.Sort(walls)
		return float64(c.Leaves) * flops(m, c.Examples) / walls[len(walls)/2] / 1e9
	}
	bits := "all bits are the processor's"
	if !device.Exact() {
		bits = "products differ from the processor's in their last bits"
	}
	return &report.Report{Version: report.Version, Suite: "layers", Transport: c.Device, Time: time.Now(), Seed: c.Seed, Machine: report.ThisMachine(), Rows: []report.Row{row},
		Notes: []string{
			"device: " + device.Name() + "; " + bits,
			fmt.Sprintf("a call has %d micro-batches of %d examples of %s: %d floats in, layers %v; each goes in from the host's memory and its gradients come back there, %d bytes both ways", c.Leaves, c.Examples, c.Model.Kind, m.Input(), c.Model.Hidden, b.bytes()),
			fmt.Sprintf("matrix products alone are %.3g GFLOP/s of the device's time, %.3g of the processor's", rate(walls[0]), rate(walls[1])),
			"limit: one thread of the processor, by OpenBLAS, at the same micro-batches: no ceiling of a card's, but what a dense rank has without one, for each of its threads",
			turns.Note,
		}}, nil
}

func timed(walls *[]float64, work func() error) turns.Loop {
	return func(_ context.Context, round int) (turns.Took, error) {
		cpu, began := turns.ThreadCPU(), time.Now()
		err := work()
		took := turns.Took{Wall: time.Since(began).Seconds(), CPU: turns.ThreadCPU() - cpu}
		if round > 0 {
			*walls = append(*walls, took.Wall)
		}
		return took, err
	}
}

// flops are those of a micro-batch's products: three of each layer's matrix.
func flops(m *model.Model, n int) (f float64) {
	for _, t := range m.Layout().Tensors {
		if t.Rows > 1 && t.Cols > 1 {
			f += 3 * 2 * float64(n) * float64(t.Len())
		}
	}
	return f
}

// bed is the same micro-batches for both.
type bed struct {
	exact       bool
	scratch     *model.Scratch
	dense       []float32
	onDevice    []layers.Leaf
	onProcessor []layers.Leaf
}

func newBed(c *Config, m *model.Model, device *layers.Device) *bed {
	b := &bed{exact: device.Exact(), scratch: m.NewScratch(c.Examples), dense: make([]float32, m.Layout().Total)}
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for i := range b.dense {
		b.dense[i] = r.Float32()/8 - 1./16
	}
	n := c.Examples
	for range c.Leaves {
		in := model.DenseLeaf{Labels: make([]float32, n), Z: make([]float32, n), X0: make([]float32, n*m.Input()), Dense: b.dense, Scale: 1 / float32(n*c.Leaves)}
		for i := range n {
			in.Labels[i], in.Z[i] = float32(r.IntN(2)), r.Float32()-.5
		}
		for i := range in.X0 {
			in.X0[i] = r.Float32() - .5
		}
		for _, all := range []*[]layers.Leaf{&b.onDevice, &b.onProcessor} {
			*all = append(*all, layers.Leaf{In: in, Out: model.DenseGrad{Dense: make([]float32, m.Layout().Total), G: make([]float32, n), X0: make([]float32, len(in.X0)), Preds: make([]float32, n)}})
		}
	}
	return b
}

// bytes come and go with a micro-batch.
func (b *bed) bytes() int {
	l := &b.onDevice[0]
	return 4 * (2*(2*len(l.In.Z)+len(l.In.X0)) + len(l.Out.Dense))
}

func (b *bed) processor() error {
	for i := range b.onProcessor {
		if err := b.scratch.StepDense(&b.onProcessor[i].In, &b.onProcessor[i].Out); err != nil {
			return err
		}
	}
	return nil
}

// check compares what both gave; the sum is of the device's.
func (b *bed) check() (string, error) {
	hash := crc32.NewIEEE()
	for i := range b.onDevice {
		got, want := &b.onDevice[i].Out, &b.onProcessor[i].Out
		for k, x := range [][]float32{got.Dense, got.G, got.X0, got.Preds} {
			_, _ = hash.Write(mem.Bytes(x))
			if w := [][]float32{want.Dense, want.G, want.X0, want.Preds}[k]; b.exact && !slices.Equal(x, w) {
				return "", fmt.Errorf("layers: part %d of micro-batch %d has other bits than the processor's", k, i)
			}
		}
		for k, p := range got.Preds {
			if w := want.Preds[k]; !(math.Abs(float64(p-w)) <= furthest) {
				return "", fmt.Errorf("layers: prediction %d of micro-batch %d is %g, the processor's %g", k, i, p, w)
			}
		}
	}
	return fmt.Sprintf("%08x", hash.Sum32()), nil
}
