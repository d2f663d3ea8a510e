package fanintest

// sender is a worker.
type sender struct {
	rate    float64 // of its line
	busy    bool    // the line
	paused  bool    // by the switch
	stalled bool    // by itself
	eager   []event // what it may send at once: pulls, announcements

	ids     int64
	granted []chunk

	// Blast and Pause: a stream of bytes.
	window     int64
	base, next int64 // not acknowledged, not sent
	timed      bool  // a timeout is on the agenda
	heard      float64
}

type chunk struct{ id, rest int64 }

func (w *sender) announce() {
	w.ids++
	w.eager = append(w.eager, event{kind: announce, bytes: announceBytes, seq: w.ids})
}

// uplink sends the worker's next packet if its line is free.
func (m *sim) uplink(at int32) {
	w := &m.who[at]
	if w.busy || w.stalled || w.paused {
		return
	}
	var e event
	switch {
	case len(w.eager) > 0:
		e = w.eager[0]
		w.eager = append(w.eager[:0], w.eager[1:]...)
	case m.Mode == Granted && len(w.granted) > 0:
		c := &w.granted[0]
		n := min(c.rest, packetBytes)
		c.rest -= n
		e = event{kind: push, bytes: float64(n), seq: c.id, last: c.rest == 0}
		if e.last {
			w.granted = append(w.granted[:0], w.granted[1:]...)
		}
	case m.Mode != Granted && !m.Idle && w.next+packetBytes <= w.base+w.window:
		e = event{kind: push, bytes: packetBytes, seq: w.next}
		w.next += packetBytes
		m.arm(at)
	default:
		return
	}
	w.busy = true
	free := m.now + e.bytes/w.rate
	m.add(event{at: free, what: uplinkFree, worker: at})
	e.worker, e.what, e.at = at, arriveSwitch, free+m.hop
	m.add(e)
}

// arm starts a sender's timer.
func (m *sim) arm(at int32) {
	if w := &m.who[at]; !w.timed {
		w.timed, w.heard = true, m.now
		m.add(event{at: m.now + m.TimeoutNanos, what: timeout, worker: at})
	}
}

// feedback is go-back-N at the sender.
func (m *sim) feedback(e event) {
	w := &m.who[e.worker]
	switch e.what {
	case ack:
		if e.seq > w.base {
			w.base, w.heard = e.seq, m.now
			w.next = max(w.next, w.base)
		}
	case nak:
		w.base, w.heard = max(w.base, e.seq), m.now
		w.next = w.base
	case timeout:
		w.timed = false
		if wait := w.heard + m.TimeoutNanos; wait > m.now && w.next > w.base {
			w.timed = true
			m.add(event{at: wait, what: timeout, worker: e.worker})
		} else {
			w.next = w.base
		}
	}
	m.uplink(e.worker)
}
