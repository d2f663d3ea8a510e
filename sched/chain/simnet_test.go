package chain

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// simNet is a network in virtual time. It loses, delays, repeats and reorders what
// is sent, cuts links one way or both, and holds back what is for a process that is
// stopped until it goes on.
type simNet struct {
	r       *rand.Rand
	now     time.Duration
	queue   simQueue
	seq     int
	loss    float64
	repeat  float64
	slow    time.Duration  // the longest delay
	cut     map[[2]int]int // from, to: times cut
	ends    map[int]*simEnd
	dropped int
}

// simEnd is a process: messages to one before it (another gen) are lost.
type simEnd struct {
	id      int
	gen     int
	down    bool
	stopped bool
	backlog []func()
	handle  func(any)
}

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type simQueue []simEvent

func (q simQueue) Len() int { return len(q) }
func (q simQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q simQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *simQueue) Push(x any)   { *q = append(*q, x.(simEvent)) }
func (q *simQueue) Pop() any {
	e := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return e
}

func newSimNet(r *rand.Rand) *simNet {
	return &simNet{r: r, cut: map[[2]int]int{}, ends: map[int]*simEnd{}, slow: 2 * time.Millisecond}
}

// after calls f later, whatever becomes of anybody.
func (n *simNet) after(d time.Duration, f func()) {
	n.seq++
	heap.Push(&n.queue, simEvent{n.now + d, n.seq, f})
}

// later calls f in a process later, if it lives then; one that is stopped does it
// when it goes on.
func (n *simNet) later(e *simEnd, d time.Duration, f func()) {
	gen := e.gen
	n.after(d, func() {
		switch {
		case e.down || e.gen != gen:
		case e.stopped:
			e.backlog = append(e.backlog, f)
		default:
			f()
		}
	})
}

func (n *simNet) end(id int) *simEnd {
	e := n.ends[id]
	if e == nil {
		e = &simEnd{id: id}
		n.ends[id] = e
	}
	return e
}

func (n *simNet) send(from, to int, msg any) {
	if n.cut[[2]int{from, to}] > 0 || n.r.Float64() < n.loss {
		n.dropped++
		return
	}
	e := n.end(to)
	times := 1
	if n.r.Float64() < n.repeat {
		times = 2
	}
	for range times {
		d := 50*time.Microsecond + time.Duration(n.r.Int64N(int64(n.slow)))
		n.later(e, d, func() { e.handle(msg) })
	}
}

func (n *simNet) stop(id int) { n.end(id).stopped = true }

func (n *simNet) goOn(id int) {
	e := n.end(id)
	e.stopped = false
	backlog, gen := e.backlog, e.gen
	e.backlog = nil
	for _, f := range backlog {
		if e.gen == gen && !e.down {
			f()
		}
	}
}

// kill loses all that a process has; boot starts another under its number.
func (n *simNet) kill(id int) {
	e := n.end(id)
	e.down, e.stopped, e.backlog = true, false, nil
	e.gen++
}

// step does the next event; false when there is none before the end.
func (n *simNet) step(end time.Duration) bool {
	if len(n.queue) == 0 || n.queue[0].at > end {
		return false
	}
	e := heap.Pop(&n.queue).(simEvent)
	n.now = e.at
	e.do()
	return true
}
