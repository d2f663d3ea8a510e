package server

import "psrt/sched/psmsg"

// refusal is how many rows of a push were refused.
type refusal struct {
	client, seq uint64
	rows        int
}

// refusals remembers, by worker, the refused rows of the latest pushes that had some: a
// push that is sent again, since its answer was lost, is answered as the first time. A
// worker has at most psmsg.Slots requests under way at a lane, so more are never asked for.
type refusals map[int][]refusal

func (f refusals) note(r *request, rows int) {
	if rows == 0 || r.Seq == 0 {
		return
	}
	for i, x := range f[r.s.worker] {
		if x.client == r.s.client && x.seq == r.Seq { // counted when it was held, and when it was applied
			f[r.s.worker][i].rows = rows
			return
		}
	}
	of := append(f[r.s.worker], refusal{r.s.client, r.Seq, rows})
	if n := len(of) - psmsg.Slots; n > 0 {
		of = append(of[:0], of[n:]...)
	}
	f[r.s.worker] = of
}

// of is the refused rows of a push that was taken before.
func (f refusals) of(r *request) int {
	for _, x := range f[r.s.worker] {
		if x.client == r.s.client && x.seq == r.Seq {
			return x.rows
		}
	}
	return 0
}
