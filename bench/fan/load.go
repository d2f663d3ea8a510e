package fan

import (
	"psrt/sched/densemap"
	"psrt/sched/server"
	"psrt/tiers/table"
)

// The server adds up what is pushed: vectors and rows begin at zero, and SGD of
// rate 1 subtracts. Gradients are whole numbers of at most 2, so float32 is
// exact for 2^23 pushes.
var sgd = table.Optimizer{Kind: table.SGD, LR: 1}

// probeRow is the table of which the probe pulls one row: 64 floats, 256 bytes.
const (
	probeFloats = 64
	probeKey    = 0x5eed
)

func probeTable() table.Spec {
	return table.Spec{Name: "probe", ID: 1, Dim: probeFloats, Init: table.Init{Kind: table.InitZero}, Optimizer: sgd}
}

func denseOf(floats int) server.DenseConfig {
	return server.DenseConfig{Ranges: ranges(floats), Optimizer: sgd, Init: make([]float32, floats)}
}

func ranges(floats int) []densemap.Range {
	return []densemap.Range{{Offset: 0, Len: floats, Rule: "grad"}}
}

// gradient is element i of what a worker pushes: another vector for each worker
// and seed, without a period that a misplaced block could hide in.
func gradient(seed uint64, worker, i int) float32 {
	x := seed + uint64(worker)<<32 + uint64(i)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float32(int(x>>40)%5 - 2)
}

func fill(grads []float32, seed uint64, worker int) {
	for i := range grads {
		grads[i] = gradient(seed, worker, i)
	}
}

// sums is what the server must hold after so many pushes of each worker.
func sums(floats int, seed uint64, pushes []int) []float32 {
	want := make([]float32, floats)
	for w, n := range pushes {
		if n == 0 {
			continue
		}
		for i := range want {
			want[i] -= float32(n) * gradient(seed, w, i)
		}
	}
	return want
}
