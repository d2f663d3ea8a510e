package server

import "psrt/sched/psmsg"

// refusal is how many rows of a push were refused.
type refusal struct {
	client, seq uint64
	rows        int
	code        psmsg.Code // CodeOK, or why the end of a step is not whole
}

// refusals remembers, by worker, the refused rows of the latest pushes that had some: a
// push that is sent again, since its answer was lost, is answered as the first time. A
// worker has at most psmsg.Slots requests under way at a lane, so more are never asked for.
type refusals map[int][]refusal

func (f refusals) note(r *request, rows int) {
	f.noteEnd(r, psmsg.CodeOK, rows)
}

// noteEnd is note for the end of a step, whose answer may be an error.
func (f refusals) noteEnd(r *request, code psmsg.Code, rows int) {
	if rows == 0 && code == psmsg.CodeOK || r.Seq == 0 {
		return
	}
	for i, x := range f[r.s.worker] {
		if x.client == r.s.client && x.seq == r.Seq { // counted when it was held, and when it was applied
			f[r.s.worker][i].rows, f[r.s.worker][i].code = rows, code
			return
		}
	}
	of := append(f[r.s.worker], refusal{r.s.client, r.Seq, rows, code})
	if n := len(of) - psmsg.Slots; n > 0 {
		of = append(of[:0], of[n:]...)
	}
	f[r.s.worker] = of
}

// of is the refused rows of a push that was taken before.
func (f refusals) of(r *request) int {
	_, rows := f.answer(r)
	return rows
}

// answer is the answer to a push that was taken before: CodeDuplicate where it counts.
func (f refusals) answer(r *request) (psmsg.Code, int) {
	for _, x := range f[r.s.worker] {
		if x.client == r.s.client && x.seq == r.Seq {
			if x.code != psmsg.CodeOK {
				return x.code, x.rows
			}
			return psmsg.CodeDuplicate, x.rows
		}
	}
	return psmsg.CodeDuplicate, 0
}
