package micro

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"psrt/bench/report"
)

// kind is a phase of the transport and that of its limit.
type kind struct{ op, phase, limit string }

func (r *runner) kinds(n int) []kind {
	if r.cfg.Suite == SuiteLatency {
		list := []kind{{"write-imm", kindLatency, kindLatencyLimit}}
		if r.st.bare != nil && n%8 == 0 { // its flag is an aligned word
			list = append([]kind{{"write", kindFlag, kindLatencyLimit}}, list...)
		}
		return list
	}
	return []kind{{"write", kindWrite, kindWriteLimit}, {"read", kindRead, kindReadLimit}}
}

// warmUp is twenty of the kernel's time slices.
const warmUp = 60 * time.Millisecond

// row measures one operation at one size, in rounds.
func (r *runner) row(ctx context.Context, k kind, n int) (report.Row, error) {
	row := report.Row{Op: k.op, Bytes: n}
	iterations := r.cfg.iterations(n)
	per := iterations / r.cfg.Rounds
	if len(r.halves) < per+r.cfg.Rounds {
		r.halves = make([]time.Duration, per+r.cfg.Rounds)
	}
	// The first touch of connections, mappings and caches is not measured, nor
	// the time until the scheduler has given both processes a core.
	for start := time.Now(); ; {
		for _, kind := range []string{k.phase, k.limit} {
			if _, _, err := r.run(ctx, kind, n, min(per, 64)); err != nil {
				return row, err
			}
		}
		if time.Since(start) >= warmUp {
			break
		}
	}
	var m measured
	for start, round := time.Now(), 0; ; round++ {
		if r.cfg.Duration == 0 && round == r.cfg.Rounds ||
			r.cfg.Duration > 0 && (time.Since(start) >= r.cfg.Duration && round > 0 || round == maxRounds) {
			break
		}
		count := per
		if r.cfg.Duration == 0 && round < iterations%r.cfg.Rounds {
			count++
		}
		if err := r.round(ctx, &m, k, n, count, round%2 == 1); err != nil {
			return row, err
		}
		row.Iterations += count
	}
	row.Checksum = fmt.Sprintf("%08x", m.checksum)
	row.Limit, row.BulkLimit, row.Ratio = median(m.limits), median(m.bulks), median(m.ratios)
	row.CPUSecondsPerGB = m.cpu / (float64(m.bytes) / 1e9)
	row.Load = report.Load()
	if len(m.rivals) > 0 {
		row.Rival = &report.Rival{Name: r.cfg.RivalName, Value: median(m.rivals), Rounds: len(m.rivals),
			Least: slices.Min(m.toRival), Lower: quantile(m.toRival, 0.25), Ratio: median(m.toRival),
			Upper: quantile(m.toRival, 0.75), Most: slices.Max(m.toRival), Limit: median(m.limitToRival),
			LimitLeast: slices.Min(m.limitToRival), LimitMost: slices.Max(m.limitToRival)}
	}
	if r.cfg.Suite == SuiteLatency {
		row.Latency = m.times.Latency()
	} else {
		avg := gbs(m.bytes, m.took)
		row.Bandwidth = &report.Bandwidth{Avg: avg, Peak: m.peak, Rate: avg * 1e3 / float64(n)}
	}
	return row, nil
}

// measured gathers the rounds of a row.
type measured struct {
	limits, ratios, bulks []float64
	rivals, toRival       []float64 // per round: the other program's figure, ours divided by it
	limitToRival          []float64
	times                 report.Histogram
	took                  time.Duration
	bytes                 int // both ways
	peak, cpu             float64
	checksum              uint32
}

// round is one phase of the limit and one of the transport.
func (r *runner) round(ctx context.Context, m *measured, k kind, n, count int, transportFirst bool) error {
	var limit, reached, rival float64
	asked := func() error {
		_, _, err := r.run(ctx, k.limit, n, count)
		return err
	}
	if r.cfg.Suite == SuiteBandwidth {
		asked = func() error {
			p, _, err := r.run(ctx, k.limit, n, count)
			limit = gbs(p.bytes, p.took)
			if r.bulk != nil {
				m.bulks = append(m.bulks, r.bulk.gbs())
			}
			return err
		}
	}
	steps := []func() error{
		func() error {
			if err := asked(); err != nil {
				return fmt.Errorf("limit: %w", err)
			}
			if r.cfg.Suite == SuiteLatency {
				limit = typical(r.halves[:count], nil)
			}
			return nil
		},
		func() error {
			if r.cfg.Rival == nil {
				return nil
			}
			var ok bool
			var err error
			if rival, ok, err = r.cfg.Rival(ctx, k.op, n, count); err != nil {
				return fmt.Errorf("rival: %w", err)
			} else if !ok {
				rival = 0
			}
			return nil
		},
		func() error {
			p, sum, err := r.run(ctx, k.phase, n, count)
			if err != nil {
				return err
			}
			// A later round's bytes must not cancel an earlier one's.
			m.checksum = m.checksum<<1 | m.checksum>>31
			m.checksum ^= sum
			m.cpu += p.cpu
			m.bytes += p.bytes
			m.took += p.took
			if r.cfg.Suite == SuiteLatency {
				m.bytes += p.bytes // there and back
				reached = typical(r.halves[:count], &m.times)
			} else {
				reached = gbs(p.bytes, p.took)
				m.peak = max(m.peak, reached)
			}
			return nil
		},
	}
	if transportFirst {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	m.limits = append(m.limits, limit)
	if rival > 0 {
		m.rivals = append(m.rivals, rival)
		m.toRival = append(m.toRival, reached/rival)
		m.limitToRival = append(m.limitToRival, limit/rival)
	}
	if r.cfg.Suite == SuiteLatency {
		m.ratios = append(m.ratios, limit/max(reached, 1e-3))
	} else {
		m.ratios = append(m.ratios, reached/limit)
	}
	return nil
}

// typical is the median of the times in microseconds; all are recorded.
func typical(times []time.Duration, into *report.Histogram) float64 {
	if into != nil {
		for _, d := range times {
			into.Record(d)
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2]) / 1e3
}

// median of v, 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return quantile(v, 0.5)
}

// quantile lies between two neighbours in proportion; v is not empty.
func quantile(v []float64, q float64) float64 {
	v = slices.Sorted(slices.Values(v))
	at := q * float64(len(v)-1)
	below := int(at)
	above := min(below+1, len(v)-1)
	return v[below] + (at-float64(below))*(v[above]-v[below])
}

// notes say what the figures mean.
func (r *runner) notes() []string {
	socket := "raw TCP socket with blocking calls"
	stream := "raw TCP stream"
	if r.st.raw != nil {
		if _, plain := r.st.raw.(*rawSocket); !plain {
			socket, stream = "bare "+r.transport()+" stream", "bare "+r.transport()+" stream"
		}
	}
	limit := map[string]string{
		SuiteLatency + "mapped":   "limit: the same bytes copied into the peer's memory and a store to the cache line it spins on",
		SuiteLatency:              "limit: the same bytes over a " + socket,
		SuiteBandwidth + "mapped": "limit: memcpy between the same addresses; bulk: memcpy of " + fmt.Sprint(r.cfg.BulkBytes>>20) + " MiB",
		SuiteLatency + "bare":     "limit: a loop in C on the same connection: plain writes, found by looking at memory",
		SuiteBandwidth + "bare":   "limit: a loop in C on the same connection",
		SuiteBandwidth:            "limit: one " + stream + " in pieces of 256 KiB",
	}
	key := r.cfg.Suite
	switch {
	case r.st.caps.Mapped:
		key += "mapped"
	case r.st.bare != nil:
		key += "bare"
	}
	notes := []string{
		limit[key],
		"ratio: share of the limit reached, median of rounds in which limit and transport take turns",
		"not measured: a network between hosts; both processes run on this machine",
	}
	if r.st.bare != nil {
		notes = append(notes, fmt.Sprintf("threads that run Go in each process: %d; perftest has one", runtime.GOMAXPROCS(0)))
	}
	if r.cfg.Suite == SuiteLatency {
		notes = append(notes, "times are half round trips, each with one reading of the clock in it")
	}
	if r.cfg.Rival != nil {
		notes = append(notes, "rival: "+r.cfg.RivalName+", which takes its turn in every round; /rival: ours divided by it, median, least, quartiles and most of the rounds; limit/rival: the bare loop divided by it")
	}
	return notes
}
