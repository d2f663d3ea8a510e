package relay

import "psrt/sched/chain"

// queue holds messages that wait for room. It grows as it is used, and its bounds are
// Send's affair.
type queue struct {
	ring  []waiting
	at    int
	count int
	bytes int
}

type waiting struct {
	msg  chain.Message
	size int
}

func (q *queue) push(m *chain.Message, size int) {
	if q.count == len(q.ring) {
		grown := make([]waiting, max(16, 2*len(q.ring)))
		for i := range q.count {
			grown[i] = q.ring[(q.at+i)%len(q.ring)]
		}
		q.ring, q.at = grown, 0
	}
	q.ring[(q.at+q.count)%len(q.ring)] = waiting{*m, size}
	q.count++
	q.bytes += size
}

func (q *queue) first() *chain.Message { return q.peek(0) }

func (q *queue) peek(i int) *chain.Message { return &q.ring[(q.at+i)%len(q.ring)].msg }

func (q *queue) pop() {
	w := &q.ring[q.at]
	q.bytes -= w.size
	*w = waiting{}
	q.at = (q.at + 1) % len(q.ring)
	q.count--
}

func (q *queue) clear() { *q = queue{} }
