package chain

import (
	"fmt"
	"time"

	"psrt/sched/plan"
)

// planned is what psrt plan says of a kill, for a description of this run: the link's rate
// is of a plain stream, in bytes/s, all else is known before it.
func (c *Config) planned(rows int, link float64) (time.Duration, error) {
	d := plan.Cluster{
		Hosts: []plan.Host{
			{Name: "servers", Count: servers, Cores: 1, Network: plan.Rate(link), Servers: 1, Lanes: 1},
			{Name: "workers", Count: 1, Cores: 1, Network: plan.Rate(link), Workers: workers},
		},
		// A row of dcn is its embedding alone, and SGD keeps nothing.
		Model: plan.Model{Kind: "dcn", Fields: 1, Dim: dim, Rows: plan.Count(rows), StateFloats: 0},
		Job:   plan.Job{Batch: c.Bytes / rowBytes * workers, Sync: "asp", Replicas: servers, Transport: "tcp"},
		Costs: plan.Measured(),
	}
	if err := d.Validate(); err != nil {
		return 0, fmt.Errorf("chain: a description for psrt plan: %w", err)
	}
	return time.Duration(plan.Predict(&d).RecoverSeconds * float64(time.Second)), nil
}
