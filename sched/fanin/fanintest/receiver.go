package fanintest

import (
	"psrt/sched/fanin"
)

type receiver struct {
	policy *fanin.Policy
	grants []fanin.Grant
	freeAt float64 // of its one thread
	alarm  float64 // the Deadline that is on the agenda
	chunk  map[[2]int64]int64

	want  []int64 // Blast and Pause: next byte of each worker
	asked []bool  // for it, since it was missed
}

func (m *sim) deliver(e event) {
	if e.kind == push {
		if m.Mode != Granted {
			m.inOrder(e)
			return
		}
		m.out.land(m, e.worker, e.bytes)
		if m.rx.chunk == nil {
			m.rx.chunk = map[[2]int64]int64{}
		}
		key := [2]int64{int64(e.worker), e.seq}
		m.rx.chunk[key] += int64(e.bytes)
		if !e.last {
			return
		}
		e.bytes = float64(m.rx.chunk[key])
		delete(m.rx.chunk, key)
	}
	m.rx.freeAt = max(m.rx.freeAt, m.now) + m.ReceiveNanos
	e.at, e.what = m.rx.freeAt, complete
	m.add(e)
}

// complete is the receiver's thread with one completion.
func (m *sim) complete(e event) {
	w := int(e.worker)
	switch e.kind {
	case pull:
		m.out.pulled(m, m.now+2*m.hop-e.born)
		return
	case announce:
		m.must(m.rx.policy.Announce(w, uint64(e.seq), m.size(w), fanin.Push, int64(m.now)))
	case push:
		done, err := m.rx.policy.Arrived(w, uint64(e.seq), int64(e.bytes), int64(m.now))
		m.must(err)
		if done && m.thinks(w) {
			m.stepDone(e.worker)
		} else if done {
			m.who[w].announce() // the acknowledgement's way back is short beside a transfer's time
			m.uplink(e.worker)
		}
	}
	m.grant()
}

// grant runs the policy and has it run again when it wants.
func (m *sim) grant() {
	m.rx.grants = m.rx.policy.Grants(int64(m.now), m.rx.grants[:0])
	for _, g := range m.rx.grants {
		m.add(event{at: m.now + 2*m.hop + m.rng.ExpFloat64()*m.JitterNanos, what: grantArrives, worker: int32(g.Worker),
			seq: int64(g.ID), bytes: float64(g.Bytes)})
	}
	if at := float64(m.rx.policy.Deadline()); at != m.rx.alarm && at < m.WarmNanos+m.MeasureNanos {
		m.rx.alarm = at
		m.add(event{at: at, what: alarm})
	}
}

// inOrder is go-back-N at the receiver, as a reliable queue pair has it.
func (m *sim) inOrder(e event) {
	want := &m.rx.want[e.worker]
	switch {
	case e.seq == *want:
		*want += int64(e.bytes)
		m.rx.asked[e.worker] = false
		m.out.land(m, e.worker, e.bytes)
	case e.seq > *want && !m.rx.asked[e.worker]:
		m.rx.asked[e.worker] = true
		m.add(event{at: m.now + 2*m.hop, what: nak, worker: e.worker, seq: *want})
		return
	case e.seq > *want:
		return
	}
	m.add(event{at: m.now + 2*m.hop, what: ack, worker: e.worker, seq: *want})
}

// must: the model keeps the policy's rules, so a refusal is a fault of one of
// the two.
func (m *sim) must(err error) {
	if err != nil {
		panic(err)
	}
}
