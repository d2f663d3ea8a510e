package whole

import (
	"context"
	"errors"
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
	r := &report.Report{Version: report.Version, Suite: "train", Transport: "tcp", Seed: cfg.Seed, Machine: report.ThisMachine()}
	err := cable.Run(ctx, "whole", cfg.Link, cfg.Part, cfg, func(says *stationSays) (bool, error) {
		switch {
		case says.Err != "":
			return true, errors.New(says.Err)
		case says.Step != "":
			if seen != nil {
				seen(says.Step)
			}
			return false, nil
		}
		r.Time, r.Rows, r.Notes = time.Now(), says.Rows, says.Notes
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}
