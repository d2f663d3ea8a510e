package server

import (
	"fmt"
	"testing"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

func sgdTable() table.Spec {
	return table.Spec{Name: "t", ID: testTable, Dim: testDim, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
}

// keysOf are keys of a group.
func (w *chainWorld) keysOf(group, n int) (keys []uint64) {
	for k := uint64(0); len(keys) < n; k++ {
		if w.m.LaneOf(k) == group {
			keys = append(keys, k)
		}
	}
	return keys
}

// A push and a pull through chains of one to three.
func TestChainPushAndPull(t *testing.T) {
	each(t, func(t *testing.T, transport string) {
		for replicas := 1; replicas <= 3; replicas++ {
			t.Run(fmt.Sprint(replicas, " replicas"), func(t *testing.T) {
				w := newChainWorld(t, chainWorldConfig{transport: transport, groups: 1, workers: 1, tables: []table.Spec{sgdTable()}}, 3, []int{0, 1, 2}[:replicas])
				k := w.worker(0, 1)
				keys := w.keysOf(0, 10)
				for step := range uint64(5) {
					for i, v := range k.pull(0, step, keys, false) {
						if v != -float32(step) {
							t.Fatalf("step %d: element %d is %v", step, i, v)
						}
					}
					if code := k.push(0, step, keys, 1, true); code != psmsg.CodeOK {
						t.Fatalf("step %d: the push was answered %v", step, code)
					}
				}
				w.alike()
			})
		}
	})
}
