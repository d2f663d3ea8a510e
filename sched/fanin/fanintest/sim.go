package fanintest

import (
	"math/rand/v2"

	"psrt/sched/fanin"
)

const (
	packetBytes   = 4096
	pullBytes     = 256
	announceBytes = 64
	pushBytes     = 4 << 20 // of a transfer
	ahead         = 2       // transfers that a worker keeps announced
	hotAhead      = 16
)

type sim struct {
	Scenario
	agenda
	now  float64
	rate float64 // bytes/ns
	hop  float64 // ns between neighbours
	rng  *rand.Rand
	who  []sender
	sw   queue
	rx   receiver
	out  book
	steps
	watcher
}

// Run plays a scenario. The same scenario gives the same result.
func Run(s Scenario) (Result, error) {
	m := &sim{Scenario: s, rate: s.Gbps / 8, hop: s.RTTNanos / 4, rng: rand.New(rand.NewPCG(s.Seed, 0))}
	m.who = make([]sender, s.Workers)
	m.sw.held = make([]float64, s.Workers)
	m.sw.paused = make([]bool, s.Workers)
	m.rx.want = make([]int64, s.Workers)
	m.rx.asked = make([]bool, s.Workers)
	m.out.landed = make([]float64, s.Workers)
	if s.Mode == Granted {
		var err error
		m.rx.policy, err = fanin.New(fanin.Config{Workers: s.Workers, Rate: 1_250_000_000, RTTNanos: 50_000, MaxRate: int64(m.rate * 1e9)})
		if err != nil {
			return Result{}, err
		}
	}
	if err := m.startWatch(); err != nil {
		return Result{}, err
	}
	m.start()
	for end := s.WarmNanos + s.MeasureNanos; ; {
		e := m.take()
		if e.at > end {
			break
		}
		m.now = e.at
		m.handle(e)
	}
	return m.result(), nil
}

func (m *sim) start() {
	m.add(event{at: m.rng.ExpFloat64() * m.PullNanos, what: pullDue})
	for i := range m.who {
		w := &m.who[i]
		w.rate = m.rate
		if i < m.Slow {
			w.rate /= 20
		} else if i < m.Slow+m.Stall {
			m.add(event{at: m.rng.Float64() * m.Stop, what: stall, worker: int32(i)})
		}
		w.window = int64(m.rate*m.RTTNanos) + 3*packetBytes // stored and forwarded twice, and not whole packets
		if m.Idle {
			continue
		}
		if m.thinks(i) {
			m.think(int32(i))
			continue
		}
		for range m.ahead(i) {
			w.announce()
		}
		m.add(event{at: m.rng.Float64() * m.RTTNanos, what: uplinkFree, worker: int32(i)})
		w.busy = true
	}
}

func (m *sim) ahead(worker int) int {
	switch from := m.Slow + m.Stall; {
	case m.Mode != Granted:
		return 0
	case worker >= from && worker < from+m.Hot:
		return hotAhead
	}
	return ahead
}

func (m *sim) handle(e event) {
	w := &m.who[e.worker]
	switch e.what {
	case uplinkFree:
		w.busy = false
		m.uplink(e.worker)
	case arriveSwitch:
		m.arriveSwitch(e)
	case leaveSwitch:
		m.leaveSwitch(e)
	case deliver:
		m.deliver(e)
	case complete:
		m.complete(e)
	case grantArrives:
		w.granted = append(w.granted, chunk{id: e.seq, rest: int64(e.bytes)})
		m.uplink(e.worker)
	case ack, nak, timeout:
		m.feedback(e)
	case pause:
		w.paused = true
	case resume:
		w.paused = false
		m.uplink(e.worker)
	case pullDue:
		odd := m.Slow + m.Stall // their own pace would hide the queue's
		at := int32(odd + m.rng.IntN(m.Workers-odd))
		m.who[at].eager = append(m.who[at].eager, event{kind: pull, bytes: pullBytes, born: m.now})
		m.uplink(at)
		m.add(event{at: m.now + m.rng.ExpFloat64()*m.PullNanos, what: pullDue})
	case alarm:
		if e.at == m.rx.alarm {
			m.grant()
		}
	case computed:
		m.computed(e.worker)
	case watch:
		m.watch()
	case stall:
		w.stalled = !w.stalled
		m.add(event{at: m.now + m.Stop, what: stall, worker: e.worker})
		m.uplink(e.worker)
	}
}
