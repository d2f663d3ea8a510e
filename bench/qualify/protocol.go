package qualify

import (
	"time"

	"psrt/bench/report"
	"psrt/rdma"
)

// protocol of director and ranks; both must be of one version.
const protocol = 1

// greeting is a rank's first word to the director.
type greeting struct {
	Protocol    int
	Rank, World int
	Listen      string // where other ranks dial it
	Facts       Facts
}

// The director's calls.
const (
	callAlive  = "alive"        // -> nothing
	callExpect = "expect"       // visit -> nothing: another rank will dial with this serial
	callDuel   = "duel"         // visit -> Outcome: dial that rank and measure
	callSettle = "settle"       // visit -> settled: end whatever is under way for the serial
	callGather = "crowd-gather" // crowdPlan -> nothing: expect all others
	callMeet   = "crowd-meet"   // crowdPlan -> crowdMet: dial the others
	callWrite  = "crowd-write"  // crowdPlan -> crowdWrote
	callCheck  = "crowd-check"  // crowdPlan -> crowdChecked: what the others wrote; the end
	callEnd    = "end"          // -> nothing
)

// visit is one direction of a duel: From dials To.
type visit struct {
	Serial   uint64
	From, To int
	Addr     string // of To
	Seed     uint64
}

type settled struct{ Err string }

// Outcome is what From found.
type Outcome struct {
	Transport string
	Reason    string // why this transport, and over which device
	Device    string
	NUMANode  int // of the device, -1 unknown
	Latency   report.Latency
	PingPongs int
	Checksum  uint32 // of the last ping-pong
	Writes    []Written
	Load      float64 // average of the last minute, at From
}

// Written is one size's writes.
type Written struct {
	Bytes, Iterations int
	Took              time.Duration
	CPUSeconds        float64 // of both ends
	Checksum          uint32
}

// GBs is the rate in GB/s.
func (w *Written) GBs() float64 {
	return float64(w.Bytes) * float64(w.Iterations) / w.Took.Seconds() / 1e9
}

// crowdPlan is all pairs at once. Slot is how much each writes at a time.
type crowdPlan struct {
	Serial   uint64
	Peers    []crowdPeer
	Slot     int
	Duration time.Duration
	Seed     uint64
}

type crowdPeer struct {
	Rank int
	Addr string
	Dial bool // this rank dials it
}

type crowdMet struct{ Failed map[int]string }

type crowdWrote struct {
	Bytes  int64
	Took   time.Duration
	Failed map[int]string // by rank
}

type crowdChecked struct{ Bad []int } // whose bytes are not what they should be

// hello is a rank's first word to another.
type hello struct {
	Serial uint64
	From   int
	Crowd  bool
}

// The calls of one rank to another.
const (
	peerAim    = "aim"    // aim -> aim
	peerPhase  = "phase"  // micro.Phase -> nothing: prepared and playing
	peerResult = "result" // -> result of the phase
)

type aim struct{ Region rdma.RemoteRange }

type result struct {
	Checksum   uint32
	CPUSeconds float64
}
