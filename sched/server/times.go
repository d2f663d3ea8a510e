package server

// again is the scratch of applyTimes: the rows that have more steps to make.
type again struct {
	rows  []uint32
	grads []float32
	times []uint8
}

// part is times[from:to]; of nil nil.
func part(times []uint8, from, to int) []uint8 {
	if times == nil {
		return nil
	}
	return times[from:to]
}

// timesOf is of how many steps the sums of n rows over all sources are: of as many as the source
// that has most of the row, since what several sources have is of the same steps. Nil where all
// are of one. Preconditions: occ says which of the n each of cat is, source behind source.
func (m *mergeScratch) timesOf(sources []*request, n int) []uint8 {
	at, some := 0, false
	for _, r := range sources {
		if r == nil {
			continue
		}
		if r.times != nil && !some {
			some, m.times = true, grow(m.times, n)
			clear(m.times)
		}
		for j, of := range r.times {
			to := &m.times[m.occ[at+j]]
			*to = max(*to, of)
		}
		at += len(r.rows)
	}
	if !some {
		return nil
	}
	return m.times
}

// applyTimes applies gradients, each the sum of those of so many steps, as so many steps with their
// mean: an optimizer whose step hardly grows with the gradient would move a row by one step's length
// else. The mean is written over grads where there are times, so these are memory of this lane then.
func (l *lane) applyTimes(t *tableState, rows []uint32, grads []float32, times []uint8) (refused int) {
	a, width := &l.merge.again, t.spec.PushFloats()
	a.rows, a.grads, a.times = a.rows[:0], a.grads[:0], a.times[:0]
	if width == t.spec.Dim && t.spec.Optimizer.Repeats() {
		for i, n := range times {
			if n < 2 {
				continue
			}
			g := grads[i*width : (i+1)*width]
			for j := range g {
				g[j] /= float32(n)
			}
			a.rows, a.grads, a.times = append(a.rows, rows[i]), append(a.grads, g...), append(a.times, n-1)
		}
	}
	refused = t.rows.Apply(rows, grads)
	for len(a.rows) > 0 {
		t.rows.Apply(a.rows, a.grads)
		a.keep(width)
	}
	return refused
}

// keep leaves those that have more steps to make after one more.
func (a *again) keep(width int) {
	n := 0
	for i, left := range a.times {
		if left > 1 {
			a.rows[n], a.times[n] = a.rows[i], left-1
			copy(a.grads[n*width:(n+1)*width], a.grads[i*width:(i+1)*width])
			n++
		}
	}
	a.rows, a.grads, a.times = a.rows[:n], a.grads[:n*width], a.times[:n]
}
