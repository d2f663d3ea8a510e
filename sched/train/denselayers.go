package train

import (
	"errors"
	"fmt"

	"psrt/sched/heter"
	"psrt/sched/train/layers"
	"psrt/sched/train/model"
	"psrt/tiers/hbm/pick"
)

// leavesAtOnce bounds the leaves of one call of a device, all of which are answered when the
// last is computed.
const leavesAtOnce = 16

// layered is a dense rank's device, if it has one, and what it tells of it.
type layered struct {
	device *layers.Device // nil: the processor computes
	has    *batch         // whose values the device has, nil: none that are wanted
	told   []string
}

func (j *Job) validateDenseDevice() error {
	switch {
	case j.DenseDevice == "":
		return nil
	case j.Heter == 0:
		return fmt.Errorf("train: --dense-device %s: only ranks that have the dense layers alone put them on a device; add --heter, or leave it out", j.DenseDevice)
	case !pick.Named(j.DenseDevice):
		return fmt.Errorf("train: --dense-device %q, want %q, %q, the number of a GPU, or %q and the file of an accelerator's library", j.DenseDevice, pick.GPU, pick.Host, pick.Library)
	case !j.Model.Deep():
		return fmt.Errorf("train: --dense-device %s with --model %s, which has no dense layers: use a model that has, or leave it out", j.DenseDevice, j.Model.Kind)
	}
	return nil
}

// openDevice takes the device that the job wants. Where there is none the processor
// computes, and this rank says so.
func (d *denseRank) openDevice() {
	kind, number := d.job.DenseDevice, d.rank.Index-d.job.Workers
	if kind == "" {
		return
	}
	device, err := layers.Open(kind, number, d.model, d.share.Micro, min(leavesAtOnce, d.share.Last-d.share.First))
	if err != nil {
		d.rank.emit(Event{Warning: d.noteLayers(fmt.Sprintf("computes its layers on the processor: %v; --dense-device %s would run the device's kernels there", err, pick.Host))})
		return
	}
	bits := "with the processor's bits"
	if !device.Exact() {
		bits = "whose products differ from this processor's in their last bits"
	}
	d.layered.device = device
	d.rank.emit(Event{Note: d.noteLayers(fmt.Sprintf("computes its layers on %s, %s", device.Name(), bits))})
}

// noteLayers records where the layers are computed, and returns the line that tells it.
func (d *denseRank) noteLayers(what string) string {
	note := fmt.Sprintf("dense rank %d %s", d.rank.Index-d.job.Workers, what)
	d.layered.told = append(d.layered.told, note)
	return note
}

// most is how many leaves are computed at a time.
func (d *denseRank) most() int {
	if d.layered.device != nil {
		return leavesAtOnce
	}
	return d.pool.threads
}

// onDevice computes leaves on the device with some values; false: there is none, or it has
// failed, and they are as they were.
func (d *denseRank) onDevice(ready []heter.Arrival, values *batch, grads [][]float32) bool {
	at := &d.layered
	if at.device == nil {
		return false
	}
	var all []layers.Leaf
	for i := range ready {
		if in, out, some := d.halves(&ready[i], values, grads[i]); some {
			all = append(all, layers.Leaf{In: in, Out: out})
		}
	}
	var err error
	if at.has != values {
		err = at.device.Values(values.dense.Values())
		at.has = values
	}
	if err == nil {
		err = at.device.Step(all)
	}
	if err == nil {
		return true
	}
	same := "with the same bits"
	if !at.device.Exact() {
		same = "whose products have other last bits"
	}
	d.rank.emit(Event{Warning: d.noteLayers(fmt.Sprintf("goes on without its device, on the processor, %s: %v", same, errors.Join(err, d.closeDevice())))})
	return false
}

// valuesGo is told before a batch gets other values.
func (d *denseRank) valuesGo(b *batch) {
	if d.layered.has == b {
		d.layered.has = nil
	}
}

func (d *denseRank) closeDevice() error {
	device := d.layered.device
	if device == nil {
		return nil
	}
	d.layered.device = nil
	return device.Close()
}

// halves are what the dense half of a leaf reads and writes; some: it has examples. The
// answer is made where it is sent from.
func (d *denseRank) halves(a *heter.Arrival, values *batch, grad []float32) (in model.DenseLeaf, out model.DenseGrad, some bool) {
	n, input := int(a.Head.Examples), d.model.Input()
	if n == 0 {
		return in, out, false
	}
	labels, z, x := columns(a.Floats, n, input)
	preds, g, dx := columns(a.Link.Room(a.Slot, a.Leaf), n, input)
	return model.DenseLeaf{Labels: labels, Z: z, X0: x, Dense: values.dense.Values(), Scale: 1 / float32(a.Head.Rows), FirstRow: a.Head.FirstRow, Epoch: int(a.Head.Epoch)},
		model.DenseGrad{Dense: grad, G: g, X0: dx, Preds: preds}, true
}
