//go:build cgo

package gpu

import (
	"fmt"

	"psrt/csrc/accel"
	"psrt/csrc/cuda"
	"psrt/csrc/ptx"
)

// open takes the device, and learns its name.
func (d *Device) open() (*accel.Device, error) {
	l, name, model, err := d.table()
	if err != nil {
		return nil, err
	}
	dev, err := l.Open(d.Index)
	if err != nil {
		return nil, err
	}
	d.named(name, model)
	return dev, nil
}

// Accelerator takes the device for somebody's own kernels and memory, who closes it.
func (d *Device) Accelerator() (*accel.Device, error) { return d.open() }

// table is the functions that drive the device: a library's, or CUDA's; and the device's
// name and model, which is all that one library has, as it names no devices.
func (d *Device) table() (l *accel.Library, name, model string, err error) {
	if d.Accel != "" {
		if l, err = accel.Load(d.Accel); err != nil {
			return nil, "", "", err
		}
		model = fmt.Sprintf("%s (%s)", l.Name, d.Accel)
		return l, fmt.Sprintf("device %d of %s", d.Index, model), model, nil
	}
	driver, err := cuda.Load(d.Library)
	if err != nil {
		return nil, "", "", err
	}
	all, err := driver.Devices()
	if err != nil {
		return nil, "", "", err
	}
	if d.Index < 0 || d.Index >= len(all) {
		return nil, "", "", fmt.Errorf("gpu: GPU %d of %d, which the driver counts from 0", d.Index, len(all))
	}
	l, err = driver.Accelerator(cuda.Kernels{Text: ptx.Text, Names: ptx.Kernels[:], Lanes: ptx.Lanes, BlockThreads: ptx.BlockThreads})
	return l, fmt.Sprintf("GPU %d, %s (%s)", d.Index, all[d.Index].Name, all[d.Index].Bus), all[d.Index].Name, err
}

// PickFrom is a device of an accelerator's library for a server: they are taken in turns
// by the server's number, as nobody knows who else has which.
func PickFrom(library string, server int) (*Device, error) {
	l, err := accel.Load(library)
	if err != nil {
		return nil, err
	}
	n, err := l.Devices()
	if err == nil && n < 1 {
		err = fmt.Errorf("gpu: %s (%s) shows no device", l.Name, library)
	}
	if err != nil {
		return nil, err
	}
	d := &Device{Accel: library, Index: server % n}
	return d, d.Probe()
}
