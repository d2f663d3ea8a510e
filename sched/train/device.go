package train

import (
	"fmt"

	"psrt/sched/server"
	"psrt/tiers/hbm"
)

// DeviceHost names the twin of a GPU in the host's memory, the one device so far.
const DeviceHost = "host"

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
	case d.Kind != DeviceHost:
		return fmt.Errorf("train: device %q for rows of coming batches: this build has %q", d.Kind, DeviceHost)
	case d.Bytes <= 0:
		return fmt.Errorf("train: %d bytes on a device: give --hbm-budget some", d.Bytes)
	}
	return nil
}

// forServer is the server's form, on a NUMA node.
func (d *Device) forServer(j *Job, node int) *server.Device {
	if d == nil {
		return nil
	}
	return &server.Device{Device: hbm.Host{Node: node}, MaxBytes: d.Bytes, Policy: d.Policy,
		BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}
}
