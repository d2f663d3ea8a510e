package whole

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
)

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = cable.ErrNoLink

// ServePart is the body of another process of a run, which Config.Part starts.
func ServePart(role string, in io.Reader, out io.Writer) error {
	return cable.Serve(map[string]cable.Part{cable.Station: serveStation, cable.Server: serveServer}, role, in, out)
}

// Run measures; seen is told what begins, and may be nil. The caller adds to the report
// who it is: program and commit.
func Run(ctx context.Context, cfg Config, seen func(step string)) (*report.Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if err := cable.Tools(cfg.Link); err != nil {
		return nil, fmt.Errorf("whole: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st, err := cable.Start(ctx, cfg.Part, cable.Station, cable.Namespaces(cfg.Link))
	if err != nil {
		return nil, fmt.Errorf("whole: %w", cable.Privilege(err))
	}
	defer st.Close(cancel)
	if err := st.Tell(cfg); err != nil {
		return nil, err
	}
	r := &report.Report{Version: report.Version, Suite: "train", Transport: "tcp", Seed: cfg.Seed, Machine: report.ThisMachine()}
	for {
		var says stationSays
		if err := st.Hear(&says); err != nil {
			return nil, err
		}
		switch {
		case says.Err != "":
			return nil, errors.New(says.Err)
		case says.Step != "":
			if seen != nil {
				seen(says.Step)
			}
		default:
			r.Time, r.Rows, r.Notes = time.Now(), says.Rows, says.Notes
			return r, nil
		}
	}
}
