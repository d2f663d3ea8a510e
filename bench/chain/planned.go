package chain

import (
	"fmt"

	"psrt/sched/plan"
)

// planned is what psrt plan says of a kill, for a description of this run: the link's rate
// is of a plain stream, in bytes/s, all else is known before it. Pushes fill the link, or
// one waits for the other.
func (c *Config) planned(rows int, link float64, full bool) (plan.Recovery, error) {
	// A row of fm is its embedding and a weight, and SGD keeps nothing.
	d := plan.Cluster{
		Hosts: []plan.Host{
			{Name: "servers", Count: servers, Cores: 1, Network: plan.Rate(link), Servers: 1, Lanes: 1},
			{Name: "workers", Count: 1, Cores: 1, Network: plan.Rate(link), Workers: 1},
		},
		Model: plan.Model{Kind: "fm", Fields: 1, Dim: dim - 1, Rows: plan.Count(rows)},
		Job:   plan.Job{Batch: smallRows, Sync: "asp", Replicas: servers, Transport: "tcp"},
		Costs: plan.Measured(),
	}
	if err := d.Validate(); err != nil {
		return plan.Recovery{}, fmt.Errorf("chain: a description for psrt plan: %w", err)
	}
	if full {
		return d.Recover(func(*plan.Host) float64 { return 1 }), nil
	}
	// One worker pushes, and waits for each push: it moves from server to server of the
	// chain, a member of which is missing, and to each as it would to a server alone.
	alone := d
	alone.Hosts = append([]plan.Host(nil), d.Hosts...)
	alone.Hosts[0].Count, alone.Job.Replicas = 1, 1
	p := plan.Predict(&alone)
	busy := p.PushBytes / link / ((servers - 1) * p.Way.Push)
	return d.Recover(func(*plan.Host) float64 { return busy }), nil
}
