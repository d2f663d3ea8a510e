package fanintest

type what uint8

const (
	uplinkFree   what = iota // worker's line may take the next packet
	arriveSwitch             // a packet reaches the queue
	leaveSwitch              // and leaves it; Pause only
	deliver                  // and reaches the receiver
	complete                 // the receiver has dealt with it
	grantArrives             // at the worker, bytes are granted
	ack                      // at the worker, seq is the next the receiver wants
	nak                      // at the worker, seq is missing
	timeout                  // of the worker
	pause                    // the worker's line
	resume                   // the worker's line
	pullDue                  // somebody pulls
	alarm                    // of the policy
	stall                    // worker stops or goes on
	computed                 // worker has something to push
	watch                    // the view looks
)

// event is also the packet it is about.
type event struct {
	at     float64
	order  uint64 // of making: breaks ties
	what   what
	kind   packet
	last   bool // packet of its chunk
	worker int32
	bytes  float64
	seq    int64   // first byte of a push; transfer number of an announcement or chunk
	born   float64 // of a pull
}

type packet uint8

const (
	push packet = iota
	pull
	announce
)

// agenda is a binary heap of events by time.
type agenda struct {
	heap []event
	made uint64
}

func (a *event) before(b *event) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (a *agenda) add(e event) {
	a.made++
	e.order = a.made
	a.heap = append(a.heap, e)
	h := a.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// take removes the first. Precondition: there is one.
func (a *agenda) take() event {
	h := a.heap
	first := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	a.heap = h
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	return first
}
