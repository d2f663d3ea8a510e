package train

import (
	"fmt"

	"psrt/sched/server"
	"psrt/tiers/hbm"
	"psrt/tiers/hbm/gpu"
)

// Kinds of devices: a GPU, and its twin in the host's memory.
const (
	DeviceGPU  = "gpu"
	DeviceHost = "host"
)

// Device says where servers keep the rows of coming batches, nearer than memory.
type Device struct {
	Kind string `json:"kind"`
	// Bytes are one server's.
	Bytes  int64  `json:"bytes"`
	Policy string `json:"policy,omitempty"`
}

func (d *Device) validate() error {
	switch {
	case d == nil:
		return nil
	case d.Kind != DeviceGPU && d.Kind != DeviceHost:
		return fmt.Errorf("train: device %q for rows of coming batches, want %q or %q", d.Kind, DeviceGPU, DeviceHost)
	case d.Bytes <= 0:
		return fmt.Errorf("train: %d bytes on a device: give --hbm-budget some", d.Bytes)
	}
	return nil
}

// forServer is a server's form, until release is called. Where there is no GPU it is
// nil, and says so.
func (d *Device) forServer(j *Job, rank Rank) (_ *server.Device, release func()) {
	release = func() {}
	if d == nil {
		return nil, release
	}
	var device hbm.Device = hbm.Host{Node: rank.Node}
	if d.Kind == DeviceGPU {
		card, leave, err := gpu.Pick(rank.Index)
		if err != nil {
			rank.emit(Event{Note: fmt.Sprintf("server %d keeps all rows in the tiers below: %v; --hbm-device %s would take memory of the host", rank.Index, err, DeviceHost)})
			return nil, release
		}
		device, release = card, leave
	}
	return &server.Device{Device: device, MaxBytes: d.Bytes, Policy: d.Policy,
		BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}, release
}
