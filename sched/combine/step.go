package combine

import (
	"fmt"
	"math"
	"sync"

	"psrt/csrc/kernels"
	"psrt/rdma"
	"psrt/sched/client"
	"psrt/tiers/accessor"
)

// step is the members' working sets of a step as one.
type step struct {
	rows   *client.Rows
	dense  *client.Dense
	clock  uint64
	option client.PullOption
	given  bool      // members have the values
	pulls  []pending // by place
	pushes []pending // likewise; empty: not all have come

	keys  [][]uint64 // by place, lent
	index [][]int32  // by place: a member's row -> the row here
	where [][]int32  // by place: a row here -> the member's, -1 where it has it not

	pull, pullDense, push, pushDense client.Call
}

func (s *step) close() {
	s.rows.Close()
	s.dense.Close()
}

// call and denseCall are those under way.
func (s *step) call() *client.Call {
	if len(s.pushes) > 0 {
		return &s.push
	}
	return &s.pull
}

func (s *step) denseCall() *client.Call {
	if len(s.pushes) > 0 {
		return &s.pushDense
	}
	return &s.pullDense
}

// room is a step's memory. There are as many as members have working sets.
func (h *Hub) room() (*step, error) {
	if n := len(h.spare); n > 0 {
		s := h.spare[n-1]
		h.spare = h.spare[:n-1]
		return s, nil
	}
	if len(h.under) >= h.cfg.Steps {
		return nil, fmt.Errorf("combine: %d steps are under way, there is room for %d: please report this", len(h.under)+1, h.cfg.Steps)
	}
	rows, err := h.c.NewRows(h.work.Spec)
	if err != nil {
		return nil, err
	}
	dense, err := h.c.NewDense(h.work.DenseLen, h.work.DenseBlocks)
	if err != nil {
		rows.Close()
		return nil, err
	}
	if h.work.Cut != nil {
		dense.Cut(h.work.Cut)
	}
	n := len(h.ends)
	return &step{rows: rows, dense: dense, keys: make([][]uint64, n), index: make([][]int32, n), where: make([][]int32, n)}, nil
}

// pull begins the step that all members have asked for.
func (h *Hub) pull(asked []pending) error {
	s, err := h.room()
	if err != nil {
		return err
	}
	s.pulls, s.pushes, s.given = asked, nil, false
	for i := range asked {
		if asked[i].here {
			s.clock, s.option = asked[i].clock, asked[i].option
		}
	}
	h.under = append(h.under, s)
	if err := h.plan(s); err != nil {
		return err
	}
	if err := h.c.Pull(s.rows, s.clock, s.option, &s.pull); err != nil {
		return err
	}
	if h.pullsDense(s) {
		if err := h.c.PullDense(s.dense, s.clock, s.option, &s.pullDense); err != nil {
			return err
		}
	}
	if s.option == 0 {
		s.locate()
	}
	return nil
}

// pullsDense says whether members want dense values.
func (h *Hub) pullsDense(s *step) bool { return h.work.Summed == nil || s.option != 0 }

// plan makes one working set of the members' keys, which it reads where they lie.
func (h *Hub) plan(s *step) error {
	return h.inside(s.pulls, sparse, func(memory [][]byte) error {
		for i := range s.pulls {
			p := &s.pulls[i]
			s.keys[i] = keysAt(memory[i], p.sparse.Keys, p.rows)
			s.index[i] = grow(s.index[i], p.rows)
			h.asked.Add(uint64(p.rows))
		}
		if err := s.rows.Plan(s.keys, s.index); err != nil {
			return err
		}
		h.pulls.Add(1)
		h.pulled.Add(uint64(s.rows.Len()))
		return nil
	})
}

// locate turns index round, while the rows are on their way.
func (s *step) locate() {
	n := s.rows.Len()
	for i, index := range s.index {
		where := grow(s.where[i], n)
		for r := range where {
			where[r] = -1
		}
		for r, at := range index {
			where[at] = int32(r)
		}
		s.where[i] = where
	}
}

// follow does what follows from the servers' answers.
func (h *Hub) follow(s *step) (over, did bool, err error) {
	if !s.call().Done() || !s.denseCall().Done() {
		return false, false, nil
	}
	if err := h.wait(s.call(), s.denseCall()); err != nil {
		return false, false, err
	}
	switch {
	case !s.given:
		s.given = true
		if err := h.give(s); err != nil || s.option == 0 {
			return false, true, err
		}
	case len(s.pushes) == 0:
		return false, false, nil
	default:
		if err := h.settle(s); err != nil {
			return false, false, err
		}
	}
	h.spare = append(h.spare, s)
	return true, true, nil
}

// give stores the values where the members have their rows, and says so.
func (h *Hub) give(s *step) error {
	dim, from := h.work.Spec.Dim, s.rows.Values()
	err := h.inside(s.pulls, sparse, func(memory [][]byte) error {
		h.split(len(s.pulls), func(first, last int) {
			for i := first; i < last; i++ {
				to := floatsAt(memory[i], s.pulls[i].sparse.Values, s.pulls[i].rows*dim)
				for r, at := range s.index[i] {
					copy(to[r*dim:(r+1)*dim], from[int(at)*dim:])
				}
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	if n := h.work.DenseLen; n > 0 && h.pullsDense(s) {
		err = h.inside(s.pulls, dense, func(memory [][]byte) error {
			for i := range s.pulls {
				if !s.pulls[i].here {
					continue
				}
				copy(floatsAt(memory[i], s.pulls[i].dense.Values, n), s.dense.Values())
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	for i, e := range h.ends {
		if !s.pulls[i].here {
			continue
		}
		if err := e.link.Send(s.pulls[i].slot, kindPull, (&request{kind: kindPull, clock: s.clock}).answer(0, 0)); err != nil {
			return err
		}
	}
	return nil
}

// push adds what all members push of a step, and pushes the sum.
func (h *Hub) push(asked []pending) error {
	var s *step
	for _, x := range h.under {
		if x.given && len(x.pushes) == 0 && x.option == 0 && x.clock == asked[0].clock {
			s = x
		}
	}
	if s == nil {
		return fmt.Errorf("combine: worker %d pushes at clock %d, at which it has nothing: please report this", h.ends[0].worker, asked[0].clock)
	}
	own, batch := 0, 0
	s.pushes = asked
	for i, p := range asked {
		if p.rows != s.pulls[i].rows {
			return fmt.Errorf("combine: worker %d pushes %d rows of a step in which it has %d: please report this", h.ends[i].worker, p.rows, s.pulls[i].rows)
		}
		own, batch = own+p.examples, max(batch, p.batch)
		h.gave.Add(uint64(p.rows))
	}
	h.pushes.Add(1)
	h.pushed.Add(uint64(s.rows.Len()))
	if err := h.add(s); err != nil {
		return err
	}
	if h.work.Whole != nil {
		h.work.Whole(s.dense.Grads(), own, batch)
	}
	// The dense push goes first: the sparse one carries the tick.
	if err := h.pushDense(s, own > 0); err != nil {
		return err
	}
	return h.c.Push(s.rows, s.clock, true, &s.push)
}

// pushDense pushes the host's sum, or its part of all workers'.
func (h *Hub) pushDense(s *step, some bool) error {
	all := h.work.Summed
	if all == nil {
		return h.c.PushDense(s.dense, s.clock, some, &s.pushDense)
	}
	if h.sums != nil && all.Others == client.NoPushes { // lanes must not add two steps' sums before they apply them
		if err := h.c.Wait(h.sums); err != nil {
			return err
		}
	}
	h.sums = &s.pushDense
	return h.c.PushDenseSum(s.dense, s.clock, nil, all.Own, all.Others, h.sums)
}

// add adds the members' gradients as the tree does; who has no examples is absent.
func (h *Hub) add(s *step) error {
	spec := &h.work.Spec
	width, n := spec.PushFloats(), s.rows.Len()
	srcs := make([][]float32, len(h.ends))
	err := h.inside(s.pushes, sparse, func(memory [][]byte) error {
		for i := range srcs {
			srcs[i] = floatsAt(memory[i], s.pushes[i].sparse.Grads, s.pushes[i].rows*width)
		}
		h.split(n, func(first, last int) {
			where, out := make([][]int32, len(s.where)), s.rows.Grads()[first*width:last*width]
			for i := range where {
				where[i] = s.where[i][first:last]
			}
			kernels.TreeSumRows(out, width, last-first, srcs, where, h.cfg.Group.Merges)
			accessor.TakeSlots(spec, out, srcs, where)
		})
		return nil
	})
	if err != nil || h.work.DenseLen == 0 {
		return err
	}
	return h.inside(s.pushes, dense, func(memory [][]byte) error {
		if h.work.Summed != nil {
			copy(s.dense.Grads(), floatsAt(memory[0], s.pushes[0].dense.Grads, h.work.DenseLen))
			return nil
		}
		h.split(h.work.DenseLen, func(first, last int) {
			part := make([][]float32, len(h.ends))
			for i := range part {
				if p := &s.pushes[i]; p.examples > 0 {
					part[i] = floatsAt(memory[i], p.dense.Grads, h.work.DenseLen)[first:last]
				}
			}
			kernels.TreeSum(s.dense.Grads()[first:last], part, h.cfg.Group.Merges)
		})
		return nil
	})
}

// settle tells the members that servers have what they pushed. Rows that were refused are
// told to those whose own gradients are not finite, to all where only the sum is not.
func (h *Hub) settle(s *step) error {
	refused, dense := make([]int, len(h.ends)), make([]int, len(h.ends))
	if s.push.Refused+s.pushDense.Refused > 0 {
		if err := h.blame(s, refused, dense); err != nil {
			return err
		}
	}
	for i, e := range h.ends {
		if err := e.link.Send(s.pushes[i].slot, kindPush, s.pushes[i].answer(refused[i], dense[i])); err != nil {
			return err
		}
	}
	return nil
}

// blame finds out whose gradients were refused.
func (h *Hub) blame(s *step, refused, refusedDense []int) error {
	width := h.work.Spec.PushFloats()
	some := 0
	err := h.inside(s.pushes, sparse, func(memory [][]byte) error {
		for i, p := range s.pushes {
			grads := floatsAt(memory[i], p.sparse.Grads, p.rows*width)
			for r := range p.rows {
				if !finite(grads[r*width : (r+1)*width]) {
					refused[i]++
				}
			}
			some += refused[i]
		}
		return nil
	})
	if err == nil && h.work.DenseLen > 0 {
		err = h.inside(s.pushes, dense, func(memory [][]byte) error {
			for i, p := range s.pushes {
				if p.examples > 0 && !finite(floatsAt(memory[i], p.dense.Grads, h.work.DenseLen)) {
					refusedDense[i] = s.pushDense.Refused
				}
				some += refusedDense[i]
			}
			return nil
		})
	}
	for i := range refused {
		if some == 0 {
			refused[i], refusedDense[i] = s.push.Refused, s.pushDense.Refused
		}
	}
	return err
}

func finite(v []float32) bool {
	for _, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return false
		}
	}
	return true
}

// window says which memory of a request is meant.
type window bool

const (
	sparse window = true
	dense  window = false
)

// inside calls f with the members' memory, by place. No member's memory can go meanwhile.
func (h *Hub) inside(of []pending, which window, f func(memory [][]byte) error) error {
	memory := make([][]byte, len(of))
	for i, e := range h.ends {
		r := of[i].dense.Memory
		if which == sparse {
			r = of[i].sparse.Memory
		}
		if r.Len == 0 { // of a plan without rows
			continue
		}
		b, err := e.link.Enter(r)
		if err != nil {
			return err
		}
		defer e.link.Leave()
		memory[i] = b
	}
	return f(memory)
}

// leastSplit is how many rows or floats a thread gets at least.
const leastSplit = 1 << 10

// split has Work.Threads goroutines do parts of n things.
func (h *Hub) split(n int, do func(first, last int)) {
	parts := max(1, min(h.work.Threads, n/leastSplit))
	if parts == 1 {
		do(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(rdma.Guarded(h.cfg.OnPanic, func() { do(i*n/parts, (i+1)*n/parts) }))
	}
	wg.Wait()
}

// grow returns s with length n; contents are lost.
func grow(s []int32, n int) []int32 {
	if cap(s) < n {
		return make([]int32, n, n+n/4)
	}
	return s[:n]
}
