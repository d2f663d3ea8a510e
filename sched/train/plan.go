package train

import (
	"psrt/csrc/probe"
	"psrt/sched/client"
	"psrt/sched/combine"
	"psrt/sched/dataset"
	"psrt/sched/pipe"
)

// plan is a step that has been read and not begun: its keys, and where each is
// used. It is small beside a batch, so that many may be ahead.
type plan struct {
	step *dataset.Step
	set  *client.Rows      // keys only
	told client.Call       // the servers, that they will be pulled
	note pipe.Announcement // that they are being told
	slot int               // among the queue's plans
	via  combine.Ask       // with a carrier: told, by it

	occ  [][]int32  // by leaf: occurrence -> leaf-unique number
	keys [][]uint64 // by leaf: unique keys
	uniq [][]int32  // by leaf: leaf-unique -> number in set
}

func newPlan(c *client.Client, spec tableSpec, leaves int) *plan {
	return &plan{set: c.NewPlanRows(spec), occ: make([][]int32, leaves), keys: make([][]uint64, leaves), uniq: make([][]int32, leaves)}
}

// make dedups each leaf and numbers the rows of all.
func (p *plan) make(step *dataset.Step, dedup *probe.DedupScratch) error {
	p.step = step
	for i := range step.Leaves {
		n := len(step.Leaves[i].Keys)
		p.occ[i] = grow(p.occ[i], n)
		p.keys[i] = grow(p.keys[i], n)
		u := 0
		if n > 0 {
			u = probe.Dedup(dedup, step.Leaves[i].Keys, p.occ[i], p.keys[i])
		}
		p.keys[i] = p.keys[i][:u]
		p.uniq[i] = grow(p.uniq[i], u)
	}
	return p.set.Plan(p.keys, p.uniq)
}

func (p *plan) release() {
	if p.step != nil {
		p.step.Release()
		p.step = nil
	}
}
