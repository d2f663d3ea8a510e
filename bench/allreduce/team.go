package allreduce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"psrt/bench/child"
	"psrt/bench/turns"
)

// team is the ranks' processes.
type team struct {
	members    []*child.Child
	kill       func()
	transports []string // of rank 0
	bound      bool     // each to a core of its own
}

func newTeam(ctx context.Context, cfg *Config) (_ *team, err error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &team{kill: cancel}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	set := setUp{Transport: cfg.Transport, Token: make([]byte, 32), Size: cfg.Ranks, Options: cfg.Options, NCCL: cfg.Collective == NCCL}
	_, _ = rand.Read(set.Token) // never fails
	for _, n := range cfg.Sizes {
		set.Most = max(set.Most, n)
	}
	var all everyone
	cores := cfg.bind()
	t.bound = cores != nil
	for set.Rank = range cfg.Ranks {
		command := cfg.Child
		if t.bound {
			command.CPUs = cores[set.Rank]
		}
		c, err := child.Start(ctx, command)
		if err != nil {
			return nil, err
		}
		t.members = append(t.members, c)
		var h here
		if err := errors.Join(c.Tell(set), c.Hear(&h)); err != nil {
			return nil, err
		}
		all.Members, all.Plains = append(all.Members, h.Member), append(all.Plains, h.Plain)
	}
	for _, c := range t.members {
		if err := c.Tell(all); err != nil {
			return nil, err
		}
	}
	o, err := t.hear()
	if err != nil {
		return nil, err
	}
	t.transports = o[0].Transports
	return t, nil
}

func (t *team) close() {
	for _, c := range t.members {
		c.Close(t.kill)
	}
	t.kill()
}

// hear takes what all ranks say.
func (t *team) hear() ([]outcome, error) {
	out := make([]outcome, len(t.members))
	for i, c := range t.members {
		if err := c.Hear(&out[i]); err != nil {
			return nil, fmt.Errorf("rank %d: %w", i, err)
		}
		if out[i].Err != "" {
			return nil, fmt.Errorf("rank %d: %s", i, out[i].Err)
		}
	}
	return out, nil
}

// played is a turn of all ranks.
type played struct {
	micros   []float64 // of each iteration, at the slowest rank
	typical  float64
	checksum uint32
	cpu      float64 // seconds of all
}

func (t *team) play(turn turn) (p played, err error) {
	for _, c := range t.members {
		if err := c.Tell(turn); err != nil {
			return p, err
		}
	}
	all, err := t.hear()
	if err != nil {
		return p, err
	}
	for i, o := range all {
		if m := turns.Median(o.Micros); m > p.typical {
			p.typical, p.micros = m, o.Micros
		}
		p.cpu += o.CPU
		if p.checksum = all[0].Checksum; o.Checksum != p.checksum {
			return p, fmt.Errorf("allreduce: %d bytes: rank %d has the checksum %08x, rank 0 %08x", turn.Bytes, i, o.Checksum, p.checksum)
		}
	}
	return p, nil
}
