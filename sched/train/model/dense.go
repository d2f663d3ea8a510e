package model

import (
	"fmt"
	"math"
)

func name(part string, layer int, what string) string {
	return fmt.Sprintf("%s.%d.%s", part, layer, what)
}

func constant(name string, cols int, value float32, rule string) Tensor {
	return Tensor{Name: name, Rows: 1, Cols: cols, Init: InitConst, Value: value, Rule: rule}
}

// InitDense fills dst with the starting dense parameters: the same for the
// same (seed, layout), whichever process asks.
func (m *Model) InitDense(dst []float32) error {
	if len(dst) != m.layout.Total {
		return fmt.Errorf("model: %d floats for the dense parameters, the layout has %d", len(dst), m.layout.Total)
	}
	for i, t := range m.layout.Tensors {
		t.fill(dst[t.Offset:t.Offset+t.Len()], m.spec.Seed, i)
	}
	return nil
}

// fill starts one tensor. Element j depends on (seed, number, j) only, so a
// server may start any part of a tensor on its own.
func (t Tensor) fill(dst []float32, seed uint64, number int) {
	if t.Init == InitConst {
		for j := range dst {
			dst[j] = t.Value
		}
		return
	}
	limit := math.Sqrt(6 / float64(t.Rows+t.Cols))
	stream := mix(seed ^ mix(uint64(number)+1))
	for j := range dst {
		unit := float64(mix(stream+uint64(j))>>11) / (1 << 53)
		dst[j] = float32((2*unit - 1) * limit)
	}
}

// mix is splitmix64's step: a bijection whose outputs for neighbouring inputs
// pass as independent.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
