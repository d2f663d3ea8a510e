package nn

import (
	"testing"

	"psrt/csrc/seedtest"
)

func BenchmarkFM16(b *testing.B) {
	for _, level := range []Level{Plain, AVX2, AVX512} {
		if level > Best() {
			continue
		}
		b.Run(level.String(), func(b *testing.B) {
			r := seedtest.Fixed(b, 1)
			const n = 512
			x := randomSparse(r, n, Linear|FM, 16, 7)
			z, s, rows := make([]float32, n), make([]float32, n*16), make([]float32, len(x.Uniq)*x.RowDim)
			g := randomFloats(r, n)
			for b.Loop() {
				level.Forward(x, 0, z, s, nil)
				level.Backward(x, g, s, nil, rows)
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mex/s")
		})
	}
}

func BenchmarkLogLoss(b *testing.B) {
	for _, level := range []Level{Plain, AVX2, AVX512} {
		if level > Best() {
			continue
		}
		b.Run(level.String(), func(b *testing.B) {
			z, y, g, p := randomFloats(seedtest.Fixed(b, 1), 512), make([]float32, 512), make([]float32, 512), make([]float32, 512)
			for b.Loop() {
				level.LogLoss(1, z, y, g, p)
			}
		})
	}
}

func BenchmarkActivate512x256(b *testing.B) {
	for _, level := range []Level{Plain, AVX2, AVX512} {
		if level > Best() {
			continue
		}
		b.Run(level.String(), func(b *testing.B) {
			a, shift := randomFloats(seedtest.Fixed(b, 1), 512*256), make([]float32, 256)
			for b.Loop() {
				level.Activate(512, a, nil, shift, Mask{Rate: .1})
			}
		})
	}
}
