package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/report"
	"psrt/sched/place"
)

// move adds a server while pulls and pushes go on.
func (st *station) move(ctx context.Context) error {
	c, err := st.newCluster(ctx, moveGroups, moveReplicas)
	defer c.close()
	if err != nil {
		return err
	}
	w, err := st.watch(ctx, c, false)
	if err != nil {
		return err
	}
	if err := w.fill(st.cfg.StateBytes); err != nil {
		return err
	}
	if err := st.step("move"); err != nil {
		return err
	}
	before := c.chains(ctx)
	calm := time.Now()
	time.Sleep(st.cfg.Duration)
	at := time.Now()
	if err := c.begin(ctx, servers); err != nil {
		return err
	}
	after, moved, err := c.settled(ctx, before)
	if err != nil {
		return err
	}
	if err := errors.Join(w.pulls.failed(), w.pushs.failed()); err != nil {
		return err
	}
	var normal, during report.Histogram
	for _, e := range w.pulls.between(calm, at) {
		normal.Record(e.took)
	}
	for _, e := range w.pulls.between(at, moved) {
		during.Record(e.took)
	}
	checksum, err := w.end()
	if err != nil {
		return err
	}
	row := report.Row{Op: "pull while groups move", Bytes: smallRows * rowBytes, Iterations: int(during.Count()), Latency: during.Latency(), Load: report.Load(), Checksum: checksum,
		Chain: &report.Chain{NormalP99: normal.Latency().P99, PullGapMillis: float64(w.pulls.gap(at, moved)) / 1e6, PushGapMillis: float64(w.pushs.gap(at, moved)) / 1e6,
			RecoverySeconds: moved.Sub(at).Seconds(), MovedShare: share(before, after)}}
	row.Limit = row.Chain.NormalP99
	row.Ratio = row.Latency.P99 / row.Limit
	return st.say(stationSays{Rows: []report.Row{row}, Notes: []string{
		fmt.Sprintf("move: a server joins %d with %d groups of %d replicas and %d bytes; limit and ratio are of the p99 of pulls before (bar 3); moved: copies made, of all that there are (1 of %d is the least)", servers, moveGroups, moveReplicas, st.cfg.StateBytes, servers+1)}})
}

// settled waits for a map that has the new server in whole groups and does not change
// any more. moved is when it was made.
func (c *cluster) settled(ctx context.Context, before *place.Chains) (last *place.Chains, moved time.Time, err error) {
	epoch := uint64(0)
	last, err = c.until(ctx, "a map with the new server", func(m *place.Chains) bool {
		if m.Epoch != epoch {
			epoch, moved = m.Epoch, time.Now()
		}
		return share(before, m) > 0 && whole(m, moveReplicas) && time.Since(moved) > stillFor
	})
	return last, moved, err
}

// share is how many members of groups are new, of all.
func share(before, after *place.Chains) float64 {
	all, fresh := 0, 0
	for g := range after.Groups {
		for _, m := range after.Groups[g].Chain {
			all++
			was := false
			for _, o := range before.Groups[g].Chain {
				was = was || o.Server == m.Server
			}
			if !was {
				fresh++
			}
		}
	}
	return float64(fresh) / float64(all)
}
