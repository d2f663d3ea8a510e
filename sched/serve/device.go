package serve

import (
	"psrt/sched/server"
	"psrt/tiers/hbm/pick"
	"psrt/tiers/policy"
)

// CheckDevice refuses what rows on a device cannot be, as New does: for who starts several servers.
func (c *Config) CheckDevice() error {
	if c.Device == nil {
		return nil
	}
	if err := c.Device.Validate(c.Lanes, "--threads"); err != nil {
		return &InputError{Path: "--hbm-device", Msg: err.Error()}
	}
	if c.NewTables || c.Tables == nil {
		return &InputError{Path: "--hbm-budget", Msg: "the device's memory is shared out among the tables at the start; describe all of them in --tables, and leave --new-tables out"}
	}
	return policy.Check(c.Device.Policy)
}

// device is the server's form, of the server with a number, until release is called; nil where
// there is none. Trainers say nothing of their batches: rows come one lookup at a time.
func (c *Config) device(number int) (_ *server.Device, release func()) {
	device, release := c.Device.Open(pick.Server{Index: number, Node: c.Node, Say: c.Log})
	if device == nil {
		return nil, release
	}
	return &server.Device{Device: device, MaxBytes: c.Device.Bytes, Journal: c.Device.Journal, Policy: c.Device.Policy, LookAhead: lookAhead}, release
}

// lookAhead is how many steps that trainers have prefetched are remembered.
const lookAhead = 1
