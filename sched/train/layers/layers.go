package layers

import (
	"errors"
	"fmt"

	"psrt/csrc/accel"
	"psrt/sched/train/model"
)

// Host is the kind of device that is this machine: the kernels as C.
const Host = "host"

// ErrDiffers marks a device that computes something else than the processor.
var ErrDiffers = errors.New("layers: the device does not compute what the processor does")

// ErrNotSupported: a build without cgo has no kernels.
var ErrNotSupported = accel.ErrNotSupported

// Error is what a device has met.
type Error struct {
	Device string
	Cause  error
}

func (e *Error) Error() string { return fmt.Sprintf("layers: %s: %v", e.Device, e.Cause) }

func (e *Error) Unwrap() error { return e.Cause }

// Leaf is one that is computed: what StepDense reads and writes, but the sum of losses.
type Leaf struct {
	In  model.DenseLeaf
	Out model.DenseGrad
}

// check refuses a leaf whose parts do not fit each other.
func (l *Leaf) check(m *model.Model, most int) error {
	n := len(l.In.Z)
	between := n * m.Input()
	if n > most || len(l.In.Labels) != n || len(l.In.X0) != between || len(l.Out.G) != n || len(l.Out.Preds) != n || len(l.Out.X0) != between || len(l.Out.Dense) != m.Layout().Total {
		return fmt.Errorf("layers: a leaf of %d examples, of at most %d, with %d labels and %d floats, for %d gradients, %d predictions, %d and %d floats", n, most,
			len(l.In.Labels), len(l.In.X0), len(l.Out.G), len(l.Out.Preds), len(l.Out.X0), len(l.Out.Dense))
	}
	return nil
}
