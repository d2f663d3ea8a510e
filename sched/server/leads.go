package server

import (
	"slices"

	"psrt/sched/psmsg"
)

// leads is how far each worker is ahead where workers need not keep step. A cut
// waits for the slowest, so it has pushes of others that lie behind its step. It
// says which, and who goes on from it leaves them out when they come again: so each
// counts once.
type leads struct {
	next map[uint32][]uint64 // by table and worker: the step after its last push
	skip map[uint32][]uint64 // pushes of steps before these are in what was loaded
}

// tableOf is the number that stands for what a push goes to.
func tableOf(r *request) uint32 {
	if r.Kind == psmsg.KindPush {
		return r.Table
	}
	return denseTable
}

// notePush notes a push that is taken, and returns whether the state has it from
// before.
func (l *lane) notePush(r *request) (had bool) {
	if l.cfg.modeOf(tableOf(r)).BSP() {
		return false
	}
	of, w := tableOf(r), r.s.worker
	had = l.leads.skip[of] != nil && r.Clock < l.leads.skip[of][w]
	next := l.leads.of(&l.leads.next, of, l.cfg.Workers)
	next[w] = max(next[w], r.Clock+1)
	return had
}

func (d *leads) of(m *map[uint32][]uint64, table uint32, workers int) []uint64 {
	if *m == nil {
		*m = map[uint32][]uint64{}
	}
	if (*m)[table] == nil {
		(*m)[table] = make([]uint64, workers)
	}
	return (*m)[table]
}

// leadsAt is what the lane has beyond a step, in no order.
func (l *lane) leadsAt(step uint64) (out []psmsg.Lead) {
	for of, next := range l.leads.next {
		for w, n := range next {
			if n > step {
				out = append(out, psmsg.Lead{Lane: l.global, Table: of, Worker: w, Steps: n - step})
			}
		}
	}
	return out
}

// goOnFrom takes over what a checkpoint has beyond the step at which its job goes
// on, which is step 0 now.
func (l *lane) goOnFrom(all []psmsg.Lead) {
	l.leads = leads{}
	for _, x := range all {
		if x.Lane != l.global || x.Worker < 0 || x.Worker >= l.cfg.Workers {
			continue
		}
		l.leads.of(&l.leads.skip, x.Table, l.cfg.Workers)[x.Worker] = x.Steps
	}
	for of, steps := range l.leads.skip {
		l.leads.of(&l.leads.next, of, l.cfg.Workers)
		l.leads.next[of] = slices.Clone(steps)
	}
}
