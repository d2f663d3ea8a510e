package fanintest

// queue is the switch's, in front of the receiver's line. Its length follows
// from when it will be empty.
type queue struct {
	emptyAt float64
	came    int
	dropped int
	held    []float64 // bytes of each worker; Pause only
	paused  []bool
}

// pauseAlpha is the dynamic threshold of a lossless class: a line may hold this
// part of what is free of the buffer, four times as large as that of a lossy
// class since all of the switch's lossless memory can go to one port.
const (
	pauseAlpha = 1.0 / 8
	pauseRoom  = 4
)

func (m *sim) arriveSwitch(e event) {
	q := &m.sw
	wait := max(0, q.emptyAt-m.now)
	q.came++
	if m.Mode != Pause && wait*m.rate+e.bytes > m.BufferBytes {
		q.dropped++
		if m.Mode == Granted || e.kind != push { // it is sent again after the timeout
			e.at, e.last = m.now+m.TimeoutNanos, true
			m.add(e)
		}
		return
	}
	q.emptyAt = m.now + wait + e.bytes/m.rate
	m.out.waited(m, wait)
	e.at, e.what = q.emptyAt+m.hop, deliver
	if m.Mode == Pause {
		e.at, e.what = q.emptyAt, leaveSwitch
		q.held[e.worker] += e.bytes
		if !q.paused[e.worker] && q.held[e.worker] > m.threshold() {
			q.paused[e.worker] = true
			m.add(event{at: m.now + m.hop, what: pause, worker: e.worker})
		}
	}
	m.add(e)
}

func (m *sim) threshold() float64 {
	return max(2*packetBytes, pauseAlpha*(pauseRoom*m.BufferBytes-(m.sw.emptyAt-m.now)*m.rate))
}

func (m *sim) leaveSwitch(e event) {
	q := &m.sw
	q.held[e.worker] -= e.bytes
	if q.paused[e.worker] && q.held[e.worker] <= m.threshold()/2 {
		q.paused[e.worker] = false
		m.add(event{at: m.now + m.hop, what: resume, worker: e.worker})
	}
	e.at, e.what = m.now+m.hop, deliver
	m.add(e)
}
