package chain

import (
	"context"
	"fmt"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/sched/usage"
)

// goodput has one worker push to a server alone and to a chain of three in turns.
func (st *station) goodput(ctx context.Context) error {
	alone, err := st.server(ctx, serverOrder{ID: 0})
	if err != nil {
		return err
	}
	defer alone.close()
	c, err := st.newCluster(ctx, 1, servers)
	defer c.close()
	if err != nil {
		return err
	}
	sides := []*side{{name: "push, one server", where: to{addr: alone.says.Addr}, processes: []*process{alone}},
		{name: fmt.Sprintf("push, chain of %d", servers), where: to{chains: c.chains(ctx)}}}
	for _, p := range c.members {
		sides[1].processes = append(sides[1].processes, p)
	}
	for _, s := range sides {
		if s.w, err = st.worker(ctx, 0, s.where); err != nil {
			return err
		}
		defer s.w.close()
		if err := s.w.plan(st.cfg.Depth, st.cfg.Bytes/rowBytes, 1); err != nil {
			return err
		}
	}
	var links, ratios []float64
	for round := 0; round <= st.cfg.Rounds; round++ { // the first warms up
		if err := st.step("goodput, round %d of %d", round, st.cfg.Rounds); err != nil {
			return err
		}
		link, err := cable.Stream(alone.says.Stream, linkTime)
		if err != nil {
			return err
		}
		for turn := range sides {
			s := sides[(round+turn)%len(sides)]
			if err := s.window(st.cfg, round > 0); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		if round > 0 {
			links = append(links, link)
			ratios = append(ratios, sides[1].last()/sides[0].last())
		}
	}
	var rows []report.Row
	for _, s := range sides {
		row, err := s.row(st.cfg)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	rows[0].Limit = turns.Median(links) / 1e9
	rows[0].Ratio = rows[0].Bandwidth.Avg / rows[0].Limit
	rows[1].Limit, rows[1].Ratio = rows[0].Bandwidth.Avg, turns.Median(ratios)
	return st.say(stationSays{Rows: rows, Notes: []string{
		fmt.Sprintf("goodput: gradients that were acknowledged, %d pushes of %d bytes on their way; the chain's limit is the one server's goodput, the one server's a plain TCP stream over the same link; in turns, medians, the ratio that of each round's own; bar 0.95", st.cfg.Depth, st.cfg.Bytes)}})
}

// side is one of the two that take turns.
type side struct {
	name      string
	where     to
	w         *worker
	processes []*process
	rates     []float64
	cpu       float64
	pushes    int
}

func (s *side) last() float64 { return s.rates[len(s.rates)-1] }

func (s *side) window(cfg *Config, counts bool) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	n, took, err := s.w.stream(cfg.Duration)
	if err != nil || !counts {
		return err
	}
	after, err := s.used()
	s.cpu += after - before
	s.pushes += n
	s.rates = append(s.rates, float64(n)*float64(cfg.Bytes)/max(took, time.Microsecond).Seconds())
	return err
}

// used is the CPU time of all processes of a side, the worker's included.
func (s *side) used() (cpu float64, err error) {
	_, cpu = usage.Process()
	for _, p := range s.processes {
		if err := p.ask(struct{}{}); err != nil {
			return 0, err
		}
		cpu += p.says.CPUSeconds
	}
	return cpu, nil
}

func (s *side) row(cfg *Config) (row report.Row, err error) {
	peak := 0.0
	for _, r := range s.rates {
		peak = max(peak, r)
	}
	avg := turns.Median(s.rates)
	row = report.Row{Op: s.name, Bytes: cfg.Bytes, Iterations: s.pushes, Load: report.Load(),
		Bandwidth: &report.Bandwidth{Avg: avg / 1e9, Peak: peak / 1e9, Rate: avg / float64(cfg.Bytes) / 1e6}, Chain: &report.Chain{}}
	row.CPUSecondsPerGB = s.cpu / (float64(s.pushes) * float64(cfg.Bytes) / 1e9)
	row.Checksum, err = s.w.check()
	return row, err
}
