package client

import (
	"time"

	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// Latencies are how long a client's calls took, from the first request to the
// last answer, as the client noticed it. The client adds, anybody reads.
type Latencies struct {
	byKind [psmsg.KindPushDense]usage.Histogram // kinds count from 1
}

// Read gives the counts by kind of call.
func (l *Latencies) Read() map[psmsg.Kind]usage.Counts {
	all := make(map[psmsg.Kind]usage.Counts, len(l.byKind))
	for i := range l.byKind {
		all[psmsg.Kind(i+1)] = l.byKind[i].Read()
	}
	return all
}

// start is when a call begins; zero where nobody wants to know.
func (c *Client) start() (at time.Time) {
	if c.cfg.Latencies != nil {
		at = time.Now()
	}
	return at
}

// posted notes that all requests of a call are out. Until then no answer can be
// its last.
func (c *Client) posted(call *Call, began time.Time) error {
	call.began = began
	c.noteDone(call)
	return nil
}

// noteDone counts a call if it is over.
func (c *Client) noteDone(call *Call) {
	if call.Done() && !call.began.IsZero() {
		c.cfg.Latencies.byKind[call.what-1].Add(time.Since(call.began))
		call.began = time.Time{}
	}
}
