package train

import (
	"sync/atomic"
	"time"

	"psrt/csrc/kernels"
	"psrt/sched/usage"
)

type merge = kernels.Merge

// busy adds up time that a stage spent working. Any goroutine.
type busy struct{ nanos atomic.Int64 }

func (b *busy) add(d time.Duration) { b.nanos.Add(int64(d)) }
func (b *busy) seconds() float64    { return float64(b.nanos.Load()) / 1e9 }

// meter is where one worker's time goes while it trains. io runs while rows are
// read, parsed or numbered, in whatever goroutine; comm is the wait for values
// and for room to push.
type meter struct {
	io            usage.Clock
	comm, compute busy
	examples      atomic.Int64
}

// Stages is the share of the training time that each stage was busy, averaged
// over the workers. Overlap is the part of io and comm that ran while another
// stage was busy: 0 when the stages take turns, 1 when they are hidden.
type Stages struct {
	IO      float64 `json:"io"`
	Comm    float64 `json:"comm"`
	Compute float64 `json:"compute"`
	Overlap float64 `json:"overlap"`
}
