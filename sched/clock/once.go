package clock

// Verdict is what a sequence number says about a message.
type Verdict uint8

const (
	Fresh     Verdict = iota // the next one: take it
	Duplicate                // taken before: acknowledge, do not take
	Gap                      // an earlier one is still on its way: hold it
)

func (v Verdict) String() string { return [...]string{"fresh", "duplicate", "gap"}[v] }

// Once makes every message of a worker to a lane count exactly once, however
// often it is sent. Sequences start at 1. It belongs to one goroutine.
type Once struct {
	last []uint64 // by worker: the last sequence taken
}

// NewOnce starts with nothing taken. Precondition: workers >= 1.
func NewOnce(workers int) *Once { return &Once{last: make([]uint64, workers)} }

// Check says what seq is, without taking it.
func (o *Once) Check(worker int, seq uint64) Verdict {
	switch last := o.last[worker]; {
	case seq <= last:
		return Duplicate
	case seq == last+1:
		return Fresh
	}
	return Gap
}

// Take is Check, and counts a fresh one as taken.
func (o *Once) Take(worker int, seq uint64) Verdict {
	v := o.Check(worker, seq)
	if v == Fresh {
		o.last[worker] = seq
	}
	return v
}

// Last is the last sequence taken: what a worker that reconnects may forget.
func (o *Once) Last(worker int) uint64 { return o.last[worker] }
