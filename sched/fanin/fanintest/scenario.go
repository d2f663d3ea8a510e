package fanintest

import "psrt/sched/fanin"

// Mode is how the workers send.
type Mode uint8

const (
	Granted Mode = iota
	Blast
	Pause
)

func (m Mode) String() string { return [...]string{"granted", "blast", "pause"}[m] }

// Scenario is one run. New ones start from Base.
type Scenario struct {
	Mode    Mode
	Workers int
	Gbps    float64 // of every line
	Seed    uint64

	RTTNanos     float64 // of an empty network
	JitterNanos  float64 // mean of a worker's time to react, exponential
	ReceiveNanos float64 // of the receiver for each completion
	BufferBytes  float64 // of the switch's queue
	TimeoutNanos float64 // after which a sender that hears nothing goes back
	PullNanos    float64 // mean between two pulls of 256 bytes, of all workers together

	WarmNanos    float64 // not measured
	MeasureNanos float64

	Idle  bool    // nobody pushes
	Slow  int     // the first so many workers have lines of a twentieth of the speed
	Stall int     // so many after these stop for StallNanos of every 2 x StallNanos
	Hot   int     // and so many after these keep all their transfers announced
	Stop  float64 // StallNanos

	// With ThinkNanos all workers but the hot ones compute for so long (mean,
	// exponential), push StepBytes, and wait for them; the last Late workers
	// compute for lateFactor times as long.
	ThinkNanos float64
	StepBytes  int64
	Late       int
	// Watch has a probe.View tell the policy who is hot and who is behind.
	Watch bool
}

// Base is a round trip of 6 us, a queue of 4 MiB (what one port of a
// shared-buffer switch gets) and a timeout of 1 ms, which favours Blast; where
// nothing is lost it is 67 ms, as queue pairs have it. It measures 10 ms, or as
// long as 12 turns of all workers take, if they take turns and that is more.
func Base(m Mode, workers int, gbps float64) Scenario {
	s := Scenario{Mode: m, Workers: workers, Gbps: gbps, Seed: 1,
		RTTNanos: 6000, JitterNanos: 300, ReceiveNanos: 200, BufferBytes: 4 << 20, TimeoutNanos: 1e6, PullNanos: 5000,
		WarmNanos: 10e6, Stop: 2e6}
	if m == Pause {
		s.TimeoutNanos = 67e6
	}
	if s.MeasureNanos = 10e6; m == Granted {
		s.MeasureNanos = max(10e6, 12*float64(workers)*fanin.MaxChunk/(gbps/8))
	}
	return s
}

// Result is what a run shows.
type Result struct {
	Goodput   float64 // pushed bytes that count, of what the line could carry
	Jain      float64 // of the workers that are like each other: not slow, not stalling
	Least     float64 // of the same workers, the least that one got, of their mean
	QueueP50  float64 // ns a packet waits in the switch
	QueueP99  float64
	PullP50   float64 // ns from a pull of 256 B to its answer
	PullP99   float64
	Dropped   float64 // of the packets that came to the switch
	Chunk, K  int64   // at the end; Granted only
	HotShare  float64 // a hot worker's bytes over a plain worker's
	SlowShare float64 // a slow worker's bytes over what its line carries
	SetAside  int64   // times
	Steps     Steps   // with ThinkNanos
	Words     Words   // with Watch
}
