package server

import (
	"testing"

	"psrt/rdma/mem"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// A packed push that cannot be read is refused before it has a place in the order: no
// member does less than another, and the group goes on.
func TestChainRefusesUnreadable(t *testing.T) {
	spec := table.Spec{Name: "t", ID: testTable, Dim: testDim, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}
	w := newChainWorld(t, chainWorldConfig{transport: "tcp", groups: 1, workers: 1, staleness: Async, dense: testDense, tables: []table.Spec{spec}}, 2, []int{0, 1})
	k := w.worker(0, 1)
	const n = 8
	keys := w.keysOf(0, n)
	packed := func(spoil bool) psmsg.Code {
		seq := k.seq[0] + 1
		rep, _ := k.ask(0, func(r *raw) psmsg.Request {
			grads := make([]float32, n*testDim)
			for i := range grads {
				grads[i] = 3
			}
			b := r.arena.Bytes()
			copy(mem.Uint64s(b[rawKeys:][:n*8]), keys)
			size := compress.EncodeRows(b[rawValues:], compress.Half, grads, 0, testDim, nil, false, nil, &compress.Scratch{})
			if spoil {
				b[rawValues] ^= 0xff
			}
			req := r.push(0, seq, 0, n)
			req.Flags, req.Values = psmsg.FlagPacked, r.at(rawValues, size)
			return req
		})
		if rep.Code == psmsg.CodeOK {
			k.seq[0] = seq
		}
		return rep.Code
	}
	dense := func() psmsg.Code {
		rep, _ := k.ask(0, func(r *raw) psmsg.Request {
			clear(r.arena.Bytes()[rawValues:][:64])
			return psmsg.Request{Kind: psmsg.KindPushDense, Flags: psmsg.FlagPacked, Seq: k.seq[0] + 1, Rows: 1, Values: r.at(rawValues, 64)}
		})
		return rep.Code
	}
	for _, step := range []struct {
		name string
		send func() psmsg.Code
		want psmsg.Code
	}{
		{"packed", func() psmsg.Code { return packed(false) }, psmsg.CodeOK},
		{"spoilt", func() psmsg.Code { return packed(true) }, psmsg.CodeBadRequest},
		{"spoilt dense", dense, psmsg.CodeBadRequest},
		{"packed again", func() psmsg.Code { return packed(false) }, psmsg.CodeOK},
	} {
		if got := step.send(); got != step.want {
			t.Fatalf("%s: %s, want %s", step.name, got, step.want)
		}
	}
	if sum := w.alike(); sum == (table.Digest{}) {
		t.Error("no rows")
	}
}
