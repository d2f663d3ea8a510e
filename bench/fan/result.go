package fan

import (
	"fmt"
	"math"
	"time"

	"psrt/bench/report"
)

// result is what the station has said so far.
type result struct {
	cfg        *Config
	transport  string
	congestion string
	points     []*Point
}

func (r *result) report(now time.Time) *report.Report {
	out := &report.Report{Version: report.Version, Suite: "fanin", Transport: r.transport, Time: now, Seed: r.cfg.Seed,
		Machine: report.ThisMachine(), Notes: r.notes()}
	if r.cfg.Transport == "verbs" {
		out.Machine.Device = r.cfg.WorkerDevice + " to " + r.cfg.ServerDevice
	}
	var notes []string
	for _, n := range r.cfg.Workers {
		for _, mode := range r.cfg.Modes {
			if rounds := r.of(mode, n); len(rounds) > 0 {
				p := middle(rounds)
				out.Rows = append(out.Rows, p.row(r.cfg.Bytes))
				notes = append(notes, p.String())
			}
		}
	}
	out.Notes = append(out.Notes, notes...)
	return out
}

// of is a point's rounds.
func (r *result) of(mode string, workers int) (rounds []*Point) {
	for _, p := range r.points {
		if p.Mode == mode && p.Workers == workers {
			rounds = append(rounds, p)
		}
	}
	return rounds
}

func (p *merged) row(bytes int) report.Row {
	row := report.Row{
		Op: fmt.Sprintf("%s, %d workers", p.Mode, p.Workers), Bytes: bytes, Iterations: p.Pushes,
		Bandwidth: &report.Bandwidth{Avg: p.Goodput / 1e9, Peak: p.peak / 1e9, Rate: float64(p.Pushes) / p.Seconds / 1e6},
		Limit:     p.Link / 1e9, Load: p.Load, Checksum: p.Checksum,
		FanIn: &report.FanIn{
			Workers: p.Workers, Mode: p.Mode, Jain: p.Jain, IdleP99: p.Unloaded.P99, PullP50: p.Loaded.Typical, PullP99: p.Loaded.P99,
			Bound: p.BoundMicros, Chunks: p.chunks(), Chunk: int(p.ChunkBytes),
			Resent: uint64(max(p.Counts.Retransmitted, 0)), RNR: uint64(max(p.Counts.RNR, 0)), Bytes: p.Each,
			Dropped: uint64(max(p.Counts.Dropped, 0)),
		},
	}
	row.Ratio, row.FanIn.Share = p.ratio, p.share
	row.FanIn.Meter, row.FanIn.SeenBytes, row.FanIn.PushedBytes = p.Seen.Meter, p.Seen.Bytes, p.Seen.Pushed
	row.FanIn.Hot, row.FanIn.Stragglers = p.Seen.Hot, p.Seen.Stragglers
	row.FanIn.MeterOff, row.FanIn.MeterSpread = p.Seen.off()
	if p.CPUBytes > 0 {
		row.CPUSecondsPerGB = p.CPUSeconds / (float64(p.CPUBytes) / 1e9)
	}
	return row
}

// chunks is k, 0 in a mode that does not grant.
func (p *Point) chunks() int {
	if p.ChunkBytes <= 0 {
		return 0
	}
	return int(math.Ceil(float64(p.WindowBytes) / float64(p.ChunkBytes)))
}

// String says what the table's columns have no room for.
func (p *Point) String() string {
	s := fmt.Sprintf("%s, %d workers: the worst served has %.2f of the mean; %d pulls beside it", p.Mode, p.Workers, p.Least, p.Probes)
	if p.ChunkBytes > 0 {
		s += fmt.Sprintf("; the server takes the link for %.1f MB/s and %.0f us", p.RateGuess/1e6, p.RTTMicros)
	}
	if seen := p.Seen.String(); seen != "" {
		s += "; " + seen
	}
	if p.Counts.Retransmitted < 0 {
		s += "; what was sent again is not counted here"
	}
	return s
}

func (r *result) notes() []string {
	c := r.cfg
	list := []string{fmt.Sprintf("each worker has %d pushes on their way; goodput is of the gradients that landed, each of which the server has summed; the sums of all are compared element by element", c.Depth)}
	switch {
	case c.Link == LinkVeth:
		list = append(list, fmt.Sprintf("link: two namespaces and a switch between them, %g Gbit/s (tbf) and a queue of %d bytes towards the server, %v more on the way back; TCP %s",
			float64(c.RateBits)/1e9, c.QueueBytes, c.Delay, r.congestion))
	case c.Transport == "verbs":
		list = append(list, "link: the devices' own wire; RNR and resent are those of the devices' hardware counters")
	default:
		list = append(list, fmt.Sprintf("link: loopback, whose limit is this machine's memory and cores; resent is that of the whole machine; TCP %s", r.congestion))
	}
	if c.Transport == "verbs" {
		list = append(list, fmt.Sprintf("limit: reads of %d bytes, %d on their way, by one endpoint of the same transport, without a server; the best of those up to then", readBytes, readWindow))
	} else {
		list = append(list, "limit: one plain TCP stream over the same link, measured before each number of workers; the best of those up to then")
	}
	return append(list,
		fmt.Sprintf("%d rounds of all points: medians, of the ratios those of each round's own; peak is the best round; resent, dropped and RNR are of all rounds", c.Rounds),
		"of first: goodput over that with the first number of workers, same mode; a pull is one row of 256 bytes, each looked at",
		"bound: the p99 of pulls alone, and k+1 chunks at the limit's rate; without grants there is none")
}
