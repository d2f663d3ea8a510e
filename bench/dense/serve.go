package dense

import (
	"io"

	"psrt/bench/across"
	"psrt/rdma/dial"
	"psrt/sched/densemap"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// ticks is a table without rows: ending a step is a sparse push's business.
var ticks = table.Spec{Name: "ticks", ID: 1, Dim: 1, Init: table.Init{Kind: table.InitZero},
	Optimizer: table.Optimizer{Kind: table.SGD, LR: rate}}

// Serve is the child's body: it answers until in ends. It says the addresses of
// one server for each of Config.Workers.
func Serve(in io.Reader, out io.Writer) error {
	var c Config
	return across.Serve(in, out, &c, func(s *across.Serving) (any, error) {
		h, err := s.Host()
		if err != nil {
			return nil, err
		}
		var servers []string
		for _, n := range c.Workers {
			addr, err := serve(s, &c, h, n)
			if err != nil {
				return nil, err
			}
			servers = append(servers, addr)
		}
		return servers, nil
	})
}

func serve(s *across.Serving, c *Config, h *dial.Host, workers int) (string, error) {
	shares, err := tree.Shares(workers, workers)
	if err != nil {
		return "", err
	}
	merges, err := tree.Top(shares)
	if err != nil {
		return "", err
	}
	floats := c.Bytes / 4
	return s.Server(h, server.Config{Workers: workers, Merges: merges, Seed: c.Seed, Tables: []table.Spec{ticks},
		Dense: server.DenseConfig{Ranges: []densemap.Range{{Len: floats, Rule: "grad"}}, Optimizer: ticks.Optimizer, Init: make([]float32, floats)}})
}
