//go:build cgo

package layers

import (
	"errors"
	"time"

	"psrt/csrc/accel"
	"psrt/csrc/blas"
	"psrt/csrc/ptx"
	"psrt/rdma/mem"
	"psrt/sched/train/model"
	"psrt/tiers/hbm/gpu"
)

// Device is an accelerator that has a model's dense layers.
type Device struct {
	name    string
	release func()
	model   *model.Model
	shape   shape
	most    int // examples of a leaf
	exact   bool
	same    map[int]bool   // by examples of a leaf: are the bits the processor's?
	scratch *model.Scratch // of the processor
	cut     blas.Pieces

	dev    *accel.Device
	stream *accel.Stream
	over   *accel.Event
	block  uint64 // the device's memory
	at     memory
	values []float32 // pinned, as the stages are
	stages []stage
	host   [][]byte      // all that is pinned
	bytes  []byte        // an argument
	within time.Duration // a piece of work; beyond that the device hangs
	failed error
}

// stage is what one leaf takes on its way.
type stage struct{ in, out []float32 }

// Open takes a device of a kind, as gpu.Choose has it, or Host, for leaves of up to most
// examples, so many of which are under way at once; turn counts those who take one.
func Open(kind string, turn int, m *model.Model, most, stages int) (*Device, error) {
	d := &Device{name: kind, release: func() {}, model: m, shape: shapeOf(m), most: most, within: gpu.PieceWithin}
	if err := d.take(kind, turn); err != nil {
		return nil, err
	}
	err := d.begin(max(stages, 1))
	if err == nil {
		err = d.prove()
	}
	if err != nil {
		return nil, errors.Join(d.fail(err), d.Close())
	}
	return d, nil
}

func (d *Device) take(kind string, turn int) (err error) {
	if kind == Host {
		l, err := ptx.Host()
		if err != nil {
			return err
		}
		d.name = "the kernels' host form"
		d.dev, err = l.Open(0)
		return err
	}
	card, release, err := gpu.Choose(kind, turn, int64(memoryOf(&d.shape, d.most).bytes))
	if err != nil {
		return err
	}
	if d.dev, err = card.Accelerator(); err != nil {
		release()
		return err
	}
	d.name, d.release = card.Name(), release
	return nil
}

func (d *Device) begin(stages int) (err error) {
	if d.stream, err = d.dev.NewStream(); err != nil {
		return err
	}
	if d.over, err = d.dev.NewEvent(); err != nil {
		return err
	}
	d.at = memoryOf(&d.shape, d.most)
	if d.block, err = d.dev.Alloc(d.at.bytes); err != nil {
		return err
	}
	d.at.move(d.block)
	if d.values, err = d.pinned(d.shape.total); err != nil {
		return err
	}
	d.stages = make([]stage, stages)
	for i := range d.stages {
		s := &d.stages[i]
		if s.in, err = d.pinned(d.most * d.shape.between()); err != nil {
			return err
		}
		if s.out, err = d.pinned(d.shape.total + d.most*d.shape.between()); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) pinned(floats int) ([]float32, error) {
	b, err := d.dev.HostAlloc(4 * floats)
	if err != nil {
		return nil, err
	}
	d.host = append(d.host, b)
	return mem.Float32s(b), nil
}

// Name says which device it is.
func (d *Device) Name() string { return d.name }

// Exact says whether its bits are those of this machine's processor.
func (d *Device) Exact() bool { return d.exact }

// fail keeps the first error.
func (d *Device) fail(err error) error {
	if d.failed == nil && err != nil {
		d.failed = &Error{d.name, err}
	}
	return d.failed
}

// Values are the dense parameters for leaves from now on.
func (d *Device) Values(dense []float32) error {
	if d.failed != nil {
		return d.failed
	}
	copy(d.values, dense)
	return d.fail(d.stream.ToDevice(d.at.values, mem.Bytes(d.values)))
}

// Step computes leaves with the values of before.
func (d *Device) Step(leaves []Leaf) error {
	for i := range leaves {
		if err := leaves[i].check(d.model, d.most); err != nil {
			return err
		}
	}
	var mine []Leaf
	for i := range leaves {
		fits, err := d.fits(len(leaves[i].In.Z))
		if d.fail(err) != nil {
			return d.failed
		}
		if fits {
			mine = append(mine, leaves[i])
		} else if err := d.onProcessor(&leaves[i]); err != nil {
			return err
		}
	}
	for len(mine) > 0 && d.failed == nil {
		n := min(len(mine), len(d.stages))
		_ = d.fail(d.some(mine[:n]))
		mine = mine[n:]
	}
	return d.failed
}

// some computes as many leaves as there are stages, at most.
func (d *Device) some(leaves []Leaf) error {
	for i := range leaves {
		if len(leaves[i].In.Z) == 0 {
			continue
		}
		if err := d.leaf(&d.stages[i], &leaves[i].In); err != nil {
			return err
		}
	}
	if err := errors.Join(d.stream.Record(d.over), gpu.Await(d.over, d.within)); err != nil {
		return err
	}
	for i := range leaves {
		d.stages[i].give(&d.shape, &leaves[i].Out)
	}
	return nil
}

// give brings a leaf's results where they are wanted. The gradient of the bias is added up
// here: it is of one float an example.
func (s *stage) give(shape *shape, out *model.DenseGrad) {
	n := len(out.G)
	if n == 0 {
		clear(out.Dense)
		return
	}
	copy(out.Dense, s.out)
	rest := s.out[shape.total:]
	copy(out.Preds, rest)
	copy(out.G, rest[n:])
	copy(out.X0, rest[2*n:])
	var bias float32
	for _, g := range out.G {
		bias += g
	}
	out.Dense[shape.bias] = bias
}

// Close gives all back. Of a device that hangs nothing can be had.
func (d *Device) Close() error {
	defer d.release()
	if errors.Is(d.failed, gpu.ErrHangs) {
		return nil
	}
	if d.over != nil {
		// Copies may be under way, where something behind them was refused.
		if err := errors.Join(d.stream.Record(d.over), gpu.Await(d.over, d.within)); errors.Is(err, gpu.ErrHangs) {
			return nil
		}
	}
	err := gpu.Bounded(d.within, d.giveBack)
	if d.failed != nil || errors.Is(err, gpu.ErrHangs) { // of the first every call has the error
		return nil
	}
	return err
}

func (d *Device) giveBack() error {
	var errs []error
	if d.over != nil {
		errs = append(errs, d.over.Close())
	}
	for _, b := range d.host {
		errs = append(errs, d.dev.HostFree(b))
	}
	if d.block != 0 {
		errs = append(errs, d.dev.Free(d.block))
	}
	if d.stream != nil {
		errs = append(errs, d.stream.Close())
	}
	return errors.Join(append(errs, d.dev.Close())...)
}
