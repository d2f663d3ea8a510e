package kv

import (
	"os"

	"psrt/sched/audit"
	"psrt/sched/place"
)

// recorder begins this client's record for psrt audit; nil where none is wanted.
func (c *Client) recorder() (func(worker int, client uint64, m *place.Map) (*audit.Worker, error), error) {
	if c.cfg.Audit == "" || c.cfg.Aside {
		return nil, nil
	}
	if c.job.Audit == nil {
		return nil, errorf(BadConfig, "kv: audit is %q, but the servers keep no record, without which there is nothing to judge: start psrt serve with --audit DIR, or leave audit out (of libpsrt: PSRT_AUDIT, too)", c.cfg.Audit)
	}
	a := *c.job.Audit
	a.Dir = c.cfg.Audit
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return nil, errorf(BadConfig, "kv: audit: %w", err)
	}
	if err := a.Validate(); err != nil {
		return nil, errorf(Refused, "kv: what the servers say of their record: %w", err)
	}
	return func(worker int, client uint64, m *place.Map) (*audit.Worker, error) {
		cfg := audit.WorkerConfig{Config: a, Worker: worker, Client: client, Kept: c.cfg.HotStaleness}
		first := append(c.job.DenseFirst, c.job.DenseLen)
		for i := range first[:len(first)-1] {
			if first[i] < 0 || first[i] >= first[i+1] {
				return nil, errorf(Refused, "kv: the servers cut a dense vector of %d floats at %v", c.job.DenseLen, c.job.DenseFirst)
			}
			cfg.Blocks = append(cfg.Blocks, audit.DenseBlock{Offset: first[i], Len: first[i+1] - first[i], Lane: m.LaneOfBlock(i, len(first)-1)})
		}
		w, err := audit.NewWorker(cfg)
		if err != nil {
			return nil, errorf(BadConfig, "kv: audit: %w", err)
		}
		return w, nil
	}, nil
}
