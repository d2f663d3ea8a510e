package train

import (
	"fmt"
	"strings"

	"psrt/sched/server"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// Kinds of devices: a GPU, and its twin in the host's memory.
const (
	DeviceGPU  = "gpu"
	DeviceHost = "host"
	// DeviceLibrary begins the kind that is an accelerator of somebody's: the file of its
	// library follows.
	DeviceLibrary = "so:"
)

// Device says where servers keep the rows of coming batches, nearer than memory.
type Device struct {
	Kind string `json:"kind"`
	// Bytes are one server's.
	Bytes  int64  `json:"bytes"`
	Policy string `json:"policy,omitempty"`
}

// Validate refuses what no server has.
func (d *Device) Validate() error {
	switch {
	case d == nil:
		return nil
	case d.Kind == DeviceLibrary || d.Kind != DeviceGPU && d.Kind != DeviceHost && !strings.HasPrefix(d.Kind, DeviceLibrary):
		return fmt.Errorf("train: device %q for rows of coming batches, want %q, %q, or %q and the file of an accelerator's library", d.Kind, DeviceGPU, DeviceHost, DeviceLibrary)
	case d.Bytes <= 0:
		return fmt.Errorf("train: %d bytes on a device: give --hbm-budget some", d.Bytes)
	}
	return nil
}

// pick is a server's device.
func (d *Device) pick(rank Rank) (device hbm.Device, release func(), err error) {
	release = func() {}
	switch d.Kind {
	case DeviceHost:
		device = hbm.Host{Node: rank.Node}
	case DeviceGPU:
		device, release, err = gpu.Pick(rank.Index)
	default:
		device, err = gpu.PickFrom(strings.TrimPrefix(d.Kind, DeviceLibrary), rank.Index)
	}
	return device, release, err
}

// forServer is a server's form, until release is called. Where there is no GPU it is
// nil, and says so.
func (d *Device) forServer(j *Job, rank Rank) (_ *server.Device, release func()) {
	if d == nil {
		return nil, func() {}
	}
	device, release, err := d.pick(rank)
	if err != nil {
		rank.emit(Event{Note: fmt.Sprintf("server %d keeps all rows in the tiers below: %v; --hbm-device %s would take memory of the host", rank.Index, err, DeviceHost)})
		return nil, func() {}
	}
	return &server.Device{Device: device, MaxBytes: d.Bytes, Policy: d.Policy,
		BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}, release
}
