package train

import (
	"sync/atomic"

	"psrt/csrc/kernels"
	"psrt/sched/pipe"
	"psrt/sched/usage"
)

type merge = kernels.Merge

// meter is where one worker's time goes while it trains, beside what its line measures.
// io runs while rows are read, parsed or numbered, in whatever goroutine.
type meter struct {
	io       usage.Clock
	examples atomic.Int64
}

// seconds are those of io, comm and compute: comm is the wait for values and for room
// to push. Any goroutine.
func (w *worker) seconds() [3]float64 {
	_, values, room := w.line.Meter.Waits()
	return [3]float64{w.meter.io.Busy().Seconds(), values + room, w.line.Meter.Compute()}
}

// pipeline is what the worker's line has done.
func (w *worker) pipeline() pipe.Summary {
	m := w.line.Meter
	read := pipe.Stage{Name: "read", Seconds: w.meter.io.Busy().Seconds()}
	read.Sum = read.Seconds
	s := m.Summary(read)
	if s.Steps > 0 {
		s.Stages[0].Mean = read.Seconds / float64(s.Steps)
	}
	return s
}

// Stages is the share of the training time that each stage was busy, averaged
// over the workers: io reading, comm waiting for values and for room to push. Overlap
// is the part of reading and pulling that did not keep a worker from computing: 0 when
// the stages take turns, 1 when they are hidden.
type Stages struct {
	IO      float64 `json:"io"`
	Comm    float64 `json:"comm"`
	Compute float64 `json:"compute"`
	Overlap float64 `json:"overlap"`
}
