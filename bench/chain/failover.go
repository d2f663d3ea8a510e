package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/sched/place"
	"psrt/sched/plan"
)

// roles of a chain's members, by their place.
var roles = [servers]string{"head", "middle", "tail"}

// watched are the workers that show how a cluster is.
type watched struct {
	filler       *worker
	pulls, pushs *beat
	pushRows     int // of a push
	pushes       int // at a time
	rows, piece  int
}

// watch begins to pull and push a few rows; full has pushes of Config.Bytes, Depth of them
// at a time, fill the link.
func (st *station) watch(ctx context.Context, c *cluster, full bool) (w *watched, err error) {
	w = &watched{piece: st.cfg.Bytes / rowBytes, pushRows: smallRows, pushes: 1}
	if full {
		w.pushRows, w.pushes = w.piece, st.cfg.Depth
	}
	where := to{chains: c.chains(ctx)}
	var all [workers]*worker
	for i := range all {
		if all[i], err = st.worker(ctx, i, where); err != nil {
			return nil, err
		}
	}
	w.filler, w.pulls, w.pushs = all[0], &beat{w: all[1], pulls: true}, &beat{w: all[2]}
	const apart = 1 << 40
	if err := errors.Join(all[0].plan(1, 1, 1), all[1].plan(1, smallRows, apart), all[2].plan(w.pushes, w.pushRows, 2*apart)); err != nil {
		return nil, err
	}
	w.pulls.begin()
	w.pushs.begin()
	return w, nil
}

// fill pushes rows until there are so many bytes of values.
func (w *watched) fill(bytes int) error {
	more := bytes/rowBytes - w.rows
	err := w.filler.fill(1+uint64(w.rows), more, w.piece)
	w.rows += more
	return err
}

// all are the rows of a server, those that are pushed again and again included, and bytes
// what a copy of them takes on the way.
func (w *watched) all() int       { return w.rows + w.pushes*w.pushRows }
func (w *watched) bytes() float64 { return float64(w.all()) * (rowBytes + 8) }

// pushed is how much is pushed, bytes/s as they travel along the chain.
func (w *watched) pushed(from, until time.Time) float64 {
	return float64(len(w.pushs.between(from, until))) * float64(w.pushRows) * (rowBytes + 8) / until.Sub(from).Seconds()
}

// end stops the workers, and compares all rows.
func (w *watched) end() (checksum string, err error) {
	if err := errors.Join(w.pulls.end(), w.pushs.end()); err != nil {
		return "", err
	}
	if _, err := w.pushs.w.check(); err != nil {
		return "", err
	}
	checksum, err = w.filler.look(1, w.rows, w.piece)
	for _, k := range []*worker{w.filler, w.pulls.w, w.pushs.w} {
		k.close()
	}
	return checksum, err
}

func (st *station) failover(ctx context.Context) error { return st.kills(ctx, Failover) }
func (st *station) full(ctx context.Context) error     { return st.kills(ctx, Full) }

// kills each member of a chain, and starts it again at once.
func (st *station) kills(ctx context.Context, part string) error {
	full := part == Full
	c, err := st.newCluster(ctx, 1, servers)
	defer c.close()
	if err != nil {
		return err
	}
	var link float64
	for _, p := range c.members {
		rate, err := cable.Stream(p.says.Stream, linkTime)
		if err != nil {
			return err
		}
		link = max(link, rate)
	}
	w, err := st.watch(ctx, c, full)
	if err != nil {
		return err
	}
	o, err := st.rehearse(ctx, c, w, link, part)
	if err != nil {
		return err
	}
	if err := w.fill(st.cfg.StateBytes); err != nil {
		return err
	}
	planned, err := st.cfg.planned(w.all(), link, full)
	if err != nil {
		return err
	}
	kills := make([][]killed, len(roles))
	for range st.cfg.Rounds {
		for i, role := range roles {
			if err := st.step("%s: %s", part, role); err != nil {
				return err
			}
			k, err := st.kill(ctx, c, w, i)
			if err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
			k.predicted, k.planned = o.predict(w.bytes()), planned
			copying := max(k.recovery-o.bare, time.Duration(w.bytes()/link*float64(time.Second))) // as in outlookOf
			k.copied, k.pushed = w.bytes()/copying.Seconds()/link, w.pushed(k.whole.Add(-copying), k.whole)/link
			kills[i] = append(kills[i], k)
		}
	}
	checksum, err := w.end()
	if err != nil {
		return err
	}
	var rows []report.Row
	for i, role := range roles {
		rows = append(rows, killRow(role, st.cfg, kills[i], checksum))
		if full {
			rows[i].Op += ", full link"
		}
	}
	load, told := fmt.Sprintf("one pushes %d rows at a time", smallRows), "how busy one worker that waits for each push keeps the link"
	if full {
		load, told = fmt.Sprintf("one fills the link, with %d pushes of %d bytes on their way", st.cfg.Depth, st.cfg.Bytes), "that pushes keep the link busy"
	}
	return st.say(stationSays{Rows: rows, Notes: []string{
		fmt.Sprintf("kill: kill -9 of a member of a chain of %d while one worker pulls %d rows at a time and %s; times are of the pulls; a gap is the longest time without an answer (bar 1000 ms)", servers, smallRows, load),
		fmt.Sprintf("recovery: from the kill to a chain of %d that has all %d bytes again, the process being started at once; predicted: %.0f ms, which a tail without rows took, and the bytes at %.1f MB/s, the rate at which one with a quarter of them got its own (a plain TCP stream: %.1f MB/s); bar 25 %%",
			servers, st.cfg.StateBytes, float64(o.bare)/1e6, 1/o.perByte/1e6, link/1e6),
		fmt.Sprintf("planned: the form of T_recover in psrt plan, told %s, for these servers, this many rows and the plain stream's rate, with no rehearsal: %.0f ms until rows move, and what pushes leave to them of the link; /planned: measured over it; bar 25 %%", told, 1e3*planned.DetectSeconds),
		"copy, push: shares of the link at which rows came in, and pushes meanwhile; left: what psrt plan has pushes leave",
	}})
}

// killed is what a kill did.
type killed struct {
	detected, joined    time.Duration // out of the map, and begun to copy
	pullGap, pushGap    time.Duration
	recovery, predicted time.Duration
	whole               time.Time
	planned             plan.Recovery
	copied, pushed      float64 // shares of the link that rows, and pushes meanwhile, came in by
	pulls               report.Histogram
}

// outlook predicts how long it takes until a member that was killed is back: what
// detection, fence, start and joining take (bare), and the copy.
type outlook struct {
	bare    time.Duration
	perByte float64 // seconds
}

func (o *outlook) predict(bytes float64) time.Duration {
	return o.bare + time.Duration(bytes*o.perByte*float64(time.Second))
}

// rehearse kills the tail before there are rows to copy, and when there is a quarter of
// them.
func (st *station) rehearse(ctx context.Context, c *cluster, w *watched, link float64, part string) (o outlook, err error) {
	if err := st.step("%s: rehearsals", part); err != nil {
		return o, err
	}
	none, err := st.kill(ctx, c, w, servers-1)
	if err != nil {
		return o, fmt.Errorf("rehearsal: %w", err)
	}
	if err := w.fill(st.cfg.StateBytes / 4); err != nil {
		return o, err
	}
	some, err := st.kill(ctx, c, w, servers-1)
	if err != nil {
		return o, fmt.Errorf("rehearsal: %w", err)
	}
	return outlookOf(none.recovery, some.recovery, w.bytes(), link), nil
}

// outlookOf is by what two kills took, of which one had bytes to copy. No copy is faster
// than its link, whatever a busy machine makes of the difference.
func outlookOf(none, some time.Duration, bytes, link float64) outlook {
	return outlook{bare: none, perByte: max((some-none).Seconds()/bytes, 1/link)}
}

func (st *station) kill(ctx context.Context, c *cluster, w *watched, role int) (k killed, err error) {
	m, err := c.until(ctx, "a whole chain", func(m *place.Chains) bool { return whole(m, servers) })
	if err != nil {
		return k, err
	}
	time.Sleep(st.cfg.Duration)
	victim := m.Groups[0].Chain[role].Server
	at := c.cut(victim)
	if err := c.begin(ctx, victim); err != nil {
		return k, err
	}
	same := func(n *place.Chains) bool { return n.Index(victim) >= 0 && n.Node(victim) == m.Node(victim) }
	if _, err := c.until(ctx, "a map without the dead", func(n *place.Chains) bool { return !same(n) }); err != nil {
		return k, err
	}
	k.detected = time.Since(at)
	if _, err := c.until(ctx, "a joiner", func(n *place.Chains) bool { return !same(n) && (n.Groups[0].Joiner != nil || whole(n, servers)) }); err != nil {
		return k, err
	}
	k.joined = time.Since(at)
	if _, err := c.until(ctx, "a whole chain again", func(n *place.Chains) bool {
		return n.Epoch > m.Epoch && whole(n, servers) && n.Node(victim) != m.Node(victim)
	}); err != nil {
		return k, err
	}
	k.whole = time.Now()
	k.recovery = k.whole.Sub(at)
	time.Sleep(st.cfg.Duration)
	until := time.Now()
	k.pullGap, k.pushGap = w.pulls.gap(at, until), w.pushs.gap(at, until)
	for _, e := range w.pulls.between(at, until) {
		k.pulls.Record(e.took)
	}
	return k, errors.Join(w.pulls.failed(), w.pushs.failed())
}

func killRow(role string, cfg *Config, kills []killed, checksum string) report.Row {
	var pulls report.Histogram
	median := func(f func(*killed) float64) float64 {
		var v []float64
		for i := range kills {
			v = append(v, f(&kills[i]))
		}
		return turns.Median(v)
	}
	ms := func(f func(*killed) time.Duration) float64 {
		return median(func(k *killed) float64 { return float64(f(k)) / 1e6 })
	}
	for i := range kills {
		pulls.Merge(&kills[i].pulls)
	}
	row := report.Row{Op: "kill " + role, Bytes: cfg.StateBytes, Iterations: int(pulls.Count()), Latency: pulls.Latency(), Load: report.Load(), Checksum: checksum,
		Chain: &report.Chain{
			DetectMillis: ms(func(k *killed) time.Duration { return k.detected }), JoinedMillis: ms(func(k *killed) time.Duration { return k.joined }),
			PullGapMillis: ms(func(k *killed) time.Duration { return k.pullGap }), PushGapMillis: ms(func(k *killed) time.Duration { return k.pushGap }),
			RecoverySeconds: ms(func(k *killed) time.Duration { return k.recovery }) / 1e3, PredictedSeconds: ms(func(k *killed) time.Duration { return k.predicted }) / 1e3,
			PlannedSeconds: median(func(k *killed) float64 { return k.planned.Seconds() }),
			CopyShare:      median(func(k *killed) float64 { return k.copied }), PushShare: median(func(k *killed) float64 { return k.pushed }),
			PlannedShare: kills[0].planned.LinkShare}}
	row.Limit = row.Chain.PredictedSeconds * 1e6
	row.Ratio = row.Chain.RecoverySeconds / row.Chain.PredictedSeconds
	return row
}
