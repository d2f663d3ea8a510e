package server

import (
	"cmp"
	"slices"

	"psrt/sched/clock"
	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// Flows are what workers have moved, by table and worker, those that moved
// nothing left out. It asks no lane: any goroutine, at any time.
func (s *Server) Flows() []psmsg.FlowStats {
	sums := map[string][]psmsg.FlowStats{}
	for _, l := range s.lanes {
		l.traffic.read(sums)
	}
	var all []psmsg.FlowStats
	for _, list := range sums {
		for _, f := range list {
			if f.Pulls+f.Pushes > 0 {
				all = append(all, f)
			}
		}
	}
	slices.SortFunc(all, func(a, b psmsg.FlowStats) int {
		return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Table, b.Table))
	})
	return all
}

// Latencies are how long requests of a kind were at this server, from arrival
// to answer, waiting for clocks included. It asks no lane either.
func (s *Server) Latencies() map[psmsg.Kind]usage.Counts {
	all := map[psmsg.Kind]usage.Counts{}
	for k := range requestKinds {
		var sum usage.Counts
		for _, l := range s.lanes {
			sum.Add(l.traffic.latency[k].Read())
		}
		all[psmsg.Kind(k+1)] = sum
	}
	return all
}

// waiting counts what is in hand.
func (l *lane) waiting() psmsg.LaneStats {
	w := psmsg.LaneStats{Lane: l.global, Parked: len(l.parked), Reading: len(l.looking), Starved: len(l.starved), Held: len(l.dense.held), BusySeconds: l.stats.busy.Seconds(), Clocks: make([]int64, l.clock.Workers())}
	for i := range w.Clocks {
		if w.Clocks[i] = -1; l.clock.At(i) != clock.None {
			w.Clocks[i] = int64(l.clock.At(i))
		}
	}
	for _, t := range l.order {
		w.Held += len(t.held)
	}
	for s := range l.open {
		w.Sessions++
		if w.QueuePairs++; s.twin() {
			w.QueuePairs++
		}
		for i := range s.reqs {
			if s.reqs[i].busy {
				w.Requests++
			}
		}
	}
	w.Credits = w.Sessions*psmsg.Slots - w.Requests
	return w
}
