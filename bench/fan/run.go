package fan

import (
	"context"
	"errors"
	"fmt"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := cable.Tools(cfg.Link); err != nil {
		return nil, fmt.Errorf("fan-in: %w", err)
	}
	ch, err := cable.Start(ctx, cfg.Part, cable.Station, cable.Namespaces(cfg.Link))
	if err != nil {
		return nil, fmt.Errorf("fan-in: %w", cable.Privilege(err))
	}
	defer ch.Close(cancel)
	if err := ch.Tell(cfg); err != nil {
		return nil, err
	}
	r := &result{cfg: &cfg}
	for {
		var says stationSays
		if err := ch.Hear(&says); err != nil {
			return nil, err
		}
		switch {
		case says.Err != "":
			return nil, errors.New(says.Err)
		case says.Transport != "":
			r.transport, r.congestion = says.Transport, says.Congestion
		case says.Point != nil:
			r.points = append(r.points, says.Point)
			if seen != nil {
				seen(says.Point)
			}
		case says.Done:
			return r.report(time.Now()), nil
		}
	}
}
