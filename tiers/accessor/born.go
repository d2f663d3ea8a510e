package accessor

import (
	"psrt/csrc/kernels"
	"psrt/tiers/table"
)

const golden uint64 = 0x9e3779b97f4a7c15

// mix is SplitMix64's finisher. Rows of stored models were born with it: it
// must not change.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func streamRoot(seed uint64, id uint32) uint64 { return mix(mix(seed+golden) + uint64(id)*golden) }

// weights draws a row's weights: word j of the key's stream is
// mix(base + (j+1) golden).
func (a *Accessor) weights(key uint64, w []float32) {
	clear(w[:a.init.ZeroPrefix])
	w = w[a.init.ZeroPrefix:]
	at := mix(a.root ^ mix(key+golden))
	switch a.init.Kind {
	case table.InitZero:
		clear(w)
	case table.InitUniform:
		for i := range w {
			at += golden
			w[i] = a.init.Scale * uniform(mix(at))
		}
	case table.InitNormal:
		for i := range w {
			one := at + golden
			two := one + golden
			at = two + golden
			w[i] = a.init.Scale * normal(mix(one), mix(two), mix(at))
		}
	}
}

// uniform is in [-1, 1), a multiple of 2^-23: exact in a float32.
func uniform(x uint64) float32 {
	return float32(int32(x>>40)-1<<23) * (1.0 / (1 << 23))
}

// normal adds twelve 16-bit uniforms: their sum has mean 12 x 65535/2 and
// variance 2^32 - 1. The result is a multiple of 2^-17 below 6: exact in a
// float32.
func normal(words ...uint64) float32 {
	sum := int32(0)
	for _, x := range words {
		sum += int32(x&0xffff) + int32(x>>16&0xffff) + int32(x>>32&0xffff) + int32(x>>48)
	}
	return float32(2*sum-12*65535) * (1.0 / (1 << 17))
}

// Newborn writes what a pull would give of a row that is born now to weights, dim of
// them; zeros where none would be.
func (a *Accessor) Newborn(key uint64, weights []float32) {
	if !a.Admit(key) {
		clear(weights)
		return
	}
	row := make([]float32, a.RowFloats())
	a.Born(key, row)
	rows := kernels.Rows{Bases: []*float32{&row[0]}, Stride: len(row), Count: 1}
	a.Gather(&rows, []uint32{0}, weights)
}
