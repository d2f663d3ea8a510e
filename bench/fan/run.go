package fan

import (
	"context"
	"errors"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
)

// Run measures; seen is told each point when it is there, and may be nil. The
// caller adds to the report who it is: program and commit.
func Run(ctx context.Context, cfg Config, seen func(*Point)) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	r := &result{cfg: &cfg}
	err := cable.Run(ctx, "fan-in", cfg.Link, cfg.Part, cfg, func(says *stationSays) (bool, error) {
		switch {
		case says.Err != "":
			return true, errors.New(says.Err)
		case says.Transport != "":
			r.transport, r.congestion = says.Transport, says.Congestion
		case says.Point != nil:
			r.points = append(r.points, says.Point)
			if seen != nil {
				seen(says.Point)
			}
		}
		return says.Done, nil
	})
	if err != nil {
		return nil, err
	}
	return r.report(time.Now()), nil
}
