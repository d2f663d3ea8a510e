package fan

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

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
	if err := cfg.tools(); err != nil {
		return nil, err
	}
	ch, err := startPart(ctx, &cfg, roleStation, cfg.namespaces())
	if err != nil {
		return nil, privilege(err)
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

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = errors.New("measure over loopback with --link " + LinkNone)

// tools are looked for before anything begins.
func (c *Config) tools() error {
	if c.Link != LinkVeth {
		return nil
	}
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("fan-in: --link %s: %w: apt-get install iproute2; or %w", LinkVeth, err, ErrNoLink)
		}
	}
	return nil
}

// privilege explains why the kernel gave no namespaces.
func privilege(err error) error {
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("fan-in: --link %s: network namespaces take root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, or a kernel that lets users make their own (sysctl user.max_user_namespaces, user.max_net_namespaces): %w; or %w",
			LinkVeth, err, ErrNoLink)
	}
	return err
}
