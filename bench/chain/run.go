package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
)

// Run measures; seen is told what begins, and may be nil. The caller adds to the report
// who it is: program and commit.
func Run(ctx context.Context, cfg Config, seen func(step string)) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	link := "link: loopback, whose limit is this machine's memory and cores: the figures say nothing of a network"
	if cfg.Link == LinkVeth {
		link = fmt.Sprintf("link: a namespace for each process and a switch between them, %g Gbit/s (tbf) and a queue of %d bytes towards each", float64(cfg.RateBits)/1e9, cfg.QueueBytes)
	}
	r := &report.Report{Version: report.Version, Suite: "chain", Transport: "tcp", Seed: cfg.Seed, Machine: report.ThisMachine(),
		Notes: []string{link, "every row is pulled at the end of each part, and is the sum of what was acknowledged"}}
	err := cable.Run(ctx, "chain", cfg.Link, cfg.Part, cfg, func(says *stationSays) (bool, error) {
		switch {
		case says.Err != "":
			return true, errors.New(says.Err)
		case says.Done:
			r.Time = time.Now()
			return true, nil
		case says.Step != "" && seen != nil:
			seen(says.Step)
		}
		r.Rows, r.Notes = append(r.Rows, says.Rows...), append(r.Notes, says.Notes...)
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}
