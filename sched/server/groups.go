package server

import (
	"errors"
	"sync"
	"time"

	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// Groups shows the groups that a process serves as one server, with ID.
type Groups struct {
	ID  int
	All func() []*Server // at present; any goroutine
}

// StatsWithin implements metrics.Server.
func (v Groups) StatsWithin(d time.Duration) (psmsg.StatsReply, error) {
	all := v.All()
	replies, errs := make([]psmsg.StatsReply, len(all)), make([]error, len(all))
	var asked sync.WaitGroup
	for i, g := range all {
		asked.Go(func() { replies[i], errs[i] = g.StatsWithin(d) })
	}
	asked.Wait()
	sum := addStats(replies)
	sum.Server = v.ID
	return sum, errors.Join(errs...)
}

// Flows implements metrics.Server.
func (v Groups) Flows() (all []psmsg.FlowStats) {
	for _, g := range v.All() {
		all = append(all, g.Flows()...)
	}
	return all
}

// Latencies implements metrics.Server.
func (v Groups) Latencies() map[psmsg.Kind]usage.Counts {
	all := map[psmsg.Kind]usage.Counts{}
	for _, g := range v.All() {
		for kind, n := range g.Latencies() {
			sum := all[kind]
			sum.Add(n)
			all[kind] = sum
		}
	}
	return all
}

// addStats is what groups of one process have in all. Of what is the process's each
// of them tells the same.
func addStats(replies []psmsg.StatsReply) (sum psmsg.StatsReply) {
	tables, links := map[string]int{}, map[string]int{}
	for _, r := range replies {
		sum.Server = r.Server
		sum.PeakRSSBytes, sum.CPUSeconds = max(sum.PeakRSSBytes, r.PeakRSSBytes), max(sum.CPUSeconds, r.CPUSeconds)
		sum.Rows += r.Rows
		sum.TableBytes += r.TableBytes
		sum.Pulls += r.Pulls
		sum.Pushes += r.Pushes
		sum.Duplicates += r.Duplicates
		sum.StaleTickets += r.StaleTickets
		sum.ExpiredTickets += r.ExpiredTickets
		sum.AnnouncedKeys += r.AnnouncedKeys
		sum.Merged += r.Merged
		sum.RefusedRows += r.RefusedRows
		sum.BusySeconds += r.BusySeconds
		sum.Copied.Add(r.Copied)
		sum.Staleness.Add(r.Staleness)
		sum.Syncs = psmsg.AddSyncs(sum.Syncs, r.Syncs...)
		sum.Lanes = append(sum.Lanes, r.Lanes...)
		sum.Flows = append(sum.Flows, r.Flows...)
		if r.Disks != nil {
			if sum.Disks == nil {
				sum.Disks = &psmsg.DiskStats{}
			}
			sum.Disks.Add(r.Disks)
		}
		if sum.Memory == "" {
			sum.Memory = r.Memory
		}
		if sum.Refusal == "" {
			sum.Refusal = r.Refusal
		}
		for _, t := range r.Tables {
			i, known := tables[t.Name]
			if !known {
				i = len(sum.Tables)
				tables[t.Name] = i
				sum.Tables = append(sum.Tables, psmsg.TableStats{Name: t.Name, RowBytes: t.RowBytes})
			}
			sum.Tables[i].Add(&t)
		}
		for _, f := range r.FanIn {
			i, known := links[f.Device]
			if !known {
				i = len(sum.FanIn)
				links[f.Device] = i
				sum.FanIn = append(sum.FanIn, psmsg.FanInStats{Device: f.Device})
			}
			sum.FanIn[i].Add(&f)
		}
	}
	return sum
}
