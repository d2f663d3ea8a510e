package main

import (
	"context"

	"psrt/bench/ibperf"
	"psrt/bench/micro"
	"psrt/cmd/internal/cli"
	ibv "psrt/csrc/verbs"
)

// beside makes perftest's tools take turns with our own phases.
func (f *verbsFlags) beside(cfg *micro.Config) error {
	if err := ibperf.Missing(); err != nil {
		return cli.Usagef("--perftest: %w", err)
	}
	here, peer, err := f.names()
	if err != nil {
		return err
	}
	var sides [2]ibperf.Side
	for i, name := range []string{here, peer} {
		if sides[i], err = f.side(name); err != nil {
			return err
		}
	}
	cfg.RivalName = "perftest's ib_write_lat, ib_write_bw, ib_read_bw"
	cfg.Rival = func(ctx context.Context, op string, bytes, iterations int) (float64, bool, error) {
		tool := map[string]string{"latwrite": ibperf.WriteLat, "latwrite-imm": ibperf.WriteLat, "bwwrite": ibperf.WriteBW, "bwread": ibperf.ReadBW}[cfg.Suite+op]
		if tool == "" {
			return 0, false, nil
		}
		r, err := ibperf.Run(ctx, tool, sides[0], sides[1], bytes, iterations)
		if tool == ibperf.WriteLat {
			return r.Typical, true, err
		}
		return r.Average, true, err
	}
	return nil
}

// side finds what perftest must be told of a device: it looks for no port and
// no GID by itself.
func (f *verbsFlags) side(device string) (s ibperf.Side, err error) {
	c, err := ibv.Open(device)
	if err != nil {
		return s, err
	}
	defer c.Close()
	s = ibperf.Side{Device: device, Port: max(f.port, 1), GIDIndex: f.gidIndex}
	port, err := c.Port(s.Port)
	if err != nil || f.gidIndex >= 0 {
		return s, err
	}
	if port.LinkLayer != ibv.LinkEthernet {
		s.GIDIndex = 0
		return s, nil
	}
	for i := range int(port.GIDs) {
		if g, err := c.GID(s.Port, i); err == nil && g.Type == ibv.GIDTypeRoCEv2 && g.Raw[10] == 0xff && g.Raw[11] == 0xff {
			s.GIDIndex = i
			return s, nil
		}
	}
	return s, cli.Usagef("--perftest: %s port %d has no GID of RoCE v2 with an IPv4 address: choose one by --gid-index", device, s.Port)
}
