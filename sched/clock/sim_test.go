package clock

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// machine is what a lane asks of a Clock and a Once; mutants implement it too.
type machine interface {
	MayPull(worker int, step uint64) bool
	MayPush(worker int, step uint64) bool
	Tick(worker int, step uint64) error
	Leave(worker int)
	Min() uint64
	Take(worker int, seq uint64) Verdict
}

type real struct {
	*Clock
	*Once
}

// message is a pull, or one of the two pushes of a step.
type message struct {
	pull   bool
	worker int
	step   uint64
	seq    uint64
	tick   bool
}

// sim is one lane and its workers under a random schedule: messages are
// delayed and repeated, workers are fast or slow, some leave.
type sim struct {
	m         machine
	r         *rand.Rand
	staleness int
	steps     uint64
	depth     uint64 // steps a worker reads ahead of its pushes
	history   []Event

	wires  [][]message // by worker: on their way, in order
	parked []message   // pulls that wait for a clock
	held   []message   // pushes that wait for a whole step
	worker []simWorker
}

type simWorker struct {
	pulled, answered, pushed uint64 // steps asked for, got, sent back
	seq                      uint64
	gone                     bool
}

func newSim(m machine, r *rand.Rand, workers, staleness int, steps uint64) *sim {
	return &sim{m: m, r: r, staleness: staleness, steps: steps, depth: uint64(r.IntN(2)),
		wires: make([][]message, workers), worker: make([]simWorker, workers)}
}

// run plays until all workers that stay have finished, or nothing moves.
func (s *sim) run(leavers int) error {
	speed := make([]int, len(s.worker))
	for i := range speed {
		speed[i] = 1 + s.r.IntN(12)
	}
	idle := 0
	for idle < 4000 {
		if s.done() {
			return nil
		}
		idle++
		w := s.r.IntN(len(s.worker))
		if s.r.IntN(12) >= speed[w] {
			continue
		}
		if leavers > 0 && s.r.IntN(300) == 0 && !s.worker[w].gone {
			leavers--
			s.leave(w)
			continue
		}
		if s.act(w) {
			idle = 0
		}
	}
	return fmt.Errorf("stuck: workers %+v, %d pulls wait, %d pushes are held", s.worker, len(s.parked), len(s.held))
}

func (s *sim) done() bool {
	for i, w := range s.worker {
		if !w.gone && (w.pushed < s.steps || len(s.wires[i]) > 0) {
			return false
		}
	}
	return len(s.parked) == 0
}

// act lets worker w send, or its wire deliver, one thing.
func (s *sim) act(w int) bool {
	k := &s.worker[w]
	if len(s.wires[w]) > 0 && s.r.IntN(2) == 0 {
		msg := s.wires[w][0]
		if !msg.pull && s.r.IntN(5) == 0 {
			s.deliver(msg) // and once more later: the reply was lost
			return true
		}
		s.wires[w] = s.wires[w][1:]
		s.deliver(msg)
		return true
	}
	switch {
	case k.gone:
		return false
	case k.pulled < s.steps && k.pulled <= k.pushed+s.depth:
		s.wires[w] = append(s.wires[w], message{pull: true, worker: w, step: k.pulled})
		k.pulled++
	case k.pushed < k.answered:
		for i := range 2 {
			k.seq++
			s.wires[w] = append(s.wires[w], message{worker: w, step: k.pushed, seq: k.seq, tick: i == 1})
		}
		k.pushed++
	default:
		return false
	}
	return true
}

func (s *sim) deliver(msg message) {
	switch {
	case msg.pull:
		s.parked = append(s.parked, msg)
	case s.worker[msg.worker].gone:
	default:
		if s.m.Take(msg.worker, msg.seq) != Fresh {
			break
		}
		if !s.m.MayPush(msg.worker, msg.step) {
			break
		}
		s.held = append(s.held, msg)
		if msg.tick {
			_ = s.m.Tick(msg.worker, msg.step)
		}
	}
	s.settle()
}

func (s *sim) leave(w int) {
	s.worker[w].gone = true
	s.wires[w] = nil
	s.parked = slices.DeleteFunc(s.parked, func(m message) bool { return m.worker == w })
	s.m.Leave(w)
	s.history = append(s.history, Event{Kind: Left, Worker: w})
	s.settle()
}

// settle applies what may be applied and answers what may be answered.
func (s *sim) settle() {
	low := s.m.Min()
	s.held = slices.DeleteFunc(s.held, func(m message) bool {
		if s.staleness == 0 && m.step >= low {
			return false
		}
		s.history = append(s.history, Event{Applied, m.worker, m.step, m.seq})
		return true
	})
	s.parked = slices.DeleteFunc(s.parked, func(m message) bool {
		if !s.m.MayPull(m.worker, m.step) {
			return false
		}
		s.history = append(s.history, Event{Kind: Answered, Worker: m.worker, Step: m.step})
		s.worker[m.worker].answered = max(s.worker[m.worker].answered, m.step+1)
		return true
	})
}
