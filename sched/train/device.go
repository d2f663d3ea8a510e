package train

import (
	"psrt/sched/server"
	"psrt/tiers/hbm/pick"
)

// deviceForServer is a server's form of the job's device, nil where there is none of it, until
// release is called.
func deviceForServer(j *Job, rank Rank) (_ *server.Device, release func()) {
	device, release := j.Device.Open(pick.Server{Index: rank.Index, Node: rank.Node,
		Say:  func(note string) { rank.emit(Event{Note: note}) },
		Warn: func(warning string) { rank.emit(Event{Warning: warning}) }})
	if device == nil {
		return nil, release
	}
	return &server.Device{Device: device, MaxBytes: j.Device.Bytes, Journal: j.Device.Journal, Policy: j.Device.Policy,
		BatchRows: j.Batch * max(1, j.Model.Fields), LookAhead: j.LookAhead}, release
}
