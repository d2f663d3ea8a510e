package ckpt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"psrt/tiers/table"
)

// TestBytes counts: a delta of a tenth of the rows takes at most an eighth of
// the full model, and a fifteenth quantised.
func TestBytes(t *testing.T) {
	const rows, slots, lanes = 100_000, 4096, 4
	scattered := make([][]Range, lanes)
	for s := range int64(slots) {
		lane := mix(uint64(s)) % lanes
		scattered[lane] = append(scattered[lane], Range{s, s + 1})
	}
	for _, c := range []struct {
		kind     string
		dim      int
		quantise string
		limit    float64
	}{
		{table.AdaGrad, 16, QuantNone, 1.0 / 8}, {table.SGD, 16, QuantNone, 1.0 / 8}, {table.Adam, 8, QuantNone, 1.0 / 8},
		{table.AdaGrad, 16, QuantFP16, 1.0 / 15}, {table.SGD, 16, QuantFP16, 1.0 / 15}, {table.SGD, 16, QuantInt8, 1.0 / 15},
		{table.AdaGrad, 8, QuantInt8, 1.0 / 15}, {table.SGD, 8, QuantInt8, 1.0 / 15},
	} {
		spec := table.Spec{Name: "e", ID: 3, Dim: c.dim, Optimizer: table.Optimizer{Kind: c.kind}}
		dir := t.TempDir()
		h := testHistory(t, dir, 0)
		rng := rand.New(rand.NewPCG(1, 2))
		write := func(o NextOptions, n int) int64 {
			next, err := h.Begin(t.Context(), o)
			check(t, err)
			var parts []Part
			for lane := range lanes {
				r, err := next.Writer(background).Rows(fmt.Sprintf("t3-lane%d", lane), spec, scattered[lane])
				check(t, err)
				for range n / lanes {
					row := make([]float32, spec.RowFloats())
					for i := range row {
						row[i] = rng.Float32()
					}
					check(t, r.Add(rng.Uint64(), row))
				}
				p, err := r.Close()
				check(t, err)
				parts = append(parts, p)
			}
			m, err := next.Commit(background, Manifest{Slots: slots, Tables: []table.Spec{spec}, Parts: parts})
			check(t, err)
			st, err := os.Stat(filepath.Join(dir, manifestFile(m.Number)))
			check(t, err)
			return m.Bytes() + st.Size()
		}
		full := write(NextOptions{}, rows)
		delta := write(NextOptions{Delta: true, Quantise: c.quantise}, rows/10)
		if ratio := float64(delta) / float64(full); ratio > c.limit {
			t.Errorf("%s, %d weights, %q: a delta of %d bytes to a model of %d is %.4f, at most %.4f", c.kind, c.dim, c.quantise, delta, full, ratio, c.limit)
		} else {
			t.Logf("%s, %d weights, %q: %.4f of the full bytes, at most %.4f", c.kind, c.dim, c.quantise, ratio, c.limit)
		}
	}
}

// TestQuantised bounds what quantising loses: half a step of the row's scale.
func TestQuantised(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 1))
	for range 2000 {
		w := make([]float32, 1+rng.IntN(20))
		size := math.Ldexp(1, rng.IntN(250)-126)
		top := 0.0
		for i := range w {
			w[i] = float32(rng.NormFloat64() * size)
			if rng.IntN(10) == 0 {
				w[i] = 0
			}
			if math.Abs(float64(w[i])) > math.MaxFloat32 {
				w[i] = math.MaxFloat32
			}
			top = max(top, math.Abs(float64(w[i])))
		}
		for _, how := range []string{QuantFP16, QuantInt8} {
			b, ok := appendQuantised(nil, how, w)
			if !ok {
				t.Fatalf("%s of %v is refused", how, w)
			}
			got := decodeQuantised(nil, b, how, len(w))
			for i, x := range w {
				// A half has 11 bits; its subnormals reach 2^-24 of 2^14 at least.
				limit := math.Abs(float64(x))/2048 + top*math.Ldexp(1, -39)
				if how == QuantInt8 {
					limit = top / 127 / 2 * 1.0001
				}
				if d := math.Abs(float64(got[i]) - float64(x)); d > limit+1e-44 {
					t.Fatalf("%s: %g of a row up to %g came back as %g, off by %g, at most %g", how, x, top, got[i], d, limit)
				}
			}
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		if _, ok := appendQuantised(nil, QuantInt8, []float32{1, bad}); ok {
			t.Errorf("%v was quantised", bad)
		}
	}
}

// TestHalves converts all halves to floats and back, and floats between two
// halves to the nearer, ties to the even one.
func TestHalves(t *testing.T) {
	for h := range uint16(0x7c00) {
		f := ofHalf(h)
		if got := halfOf(f); got != h {
			t.Fatalf("half %04x is %g, and that %04x", h, f, got)
		}
		if got := halfOf(-f); got != h|0x8000 {
			t.Fatalf("-%g is %04x", f, got)
		}
		if h+1 == 0x7c00 {
			break
		}
		next := ofHalf(h + 1)
		mid := float32((float64(f) + float64(next)) / 2)
		even := h + h&1
		for _, c := range []struct {
			x    float32
			want uint16
		}{{math.Nextafter32(mid, f), h}, {mid, even}, {math.Nextafter32(mid, next), h + 1}} {
			if got := halfOf(c.x); got != c.want {
				t.Fatalf("%g, between %g and %g, is %04x, want %04x", c.x, f, next, got, c.want)
			}
		}
	}
}

// TestServingDeltas lays quantised deltas over a full base: weights only.
func TestServingDeltas(t *testing.T) {
	for _, how := range []string{QuantNone, QuantFP16, QuantInt8} {
		dir, w := t.TempDir(), newTwin(5)
		h := testHistory(t, dir, 0)
		w.small = true
		w.train(60)
		full, err := w.commit(h, NextOptions{}, 2)
		check(t, err)
		w.train(20)
		_, err = w.commit(h, NextOptions{Delta: true, WeightsOnly: true, Quantise: how}, 2)
		check(t, err)
		if h.Head().Number != full.Number {
			t.Fatalf("what is to be trained follows generation %d, for serving", h.Head().Number)
		}
		m, err := Open(dir)
		check(t, err)
		if !m.WeightsOnly || len(m.Chain()) != 2 {
			t.Fatalf("opened %+v, a chain of %d", m.Lineage, len(m.Chain()))
		}
		n := 0
		check(t, m.Rows(background, 1, 1, nil, func(keys []uint64, rows []float32) error {
			for i, k := range keys {
				n++
				want := w.rows[1][k][:3]
				if d := change(rows[3*i:3*i+3], want); d > 0.01 || how == QuantNone && d != 0 {
					t.Errorf("%q: key %d is %v, want %v", how, k, rows[3*i:3*i+3], want)
				}
			}
			return nil
		}))
		if n != len(w.rows[1]) {
			t.Errorf("%q: %d rows, want %d", how, n, len(w.rows[1]))
		}
		m, err = OpenTrainable(background, dir)
		check(t, err)
		if m.Number != full.Number {
			t.Errorf("trainable is generation %d", m.Number)
		}
		check(t, h.Resume(background, full.Number+1))
		if _, err := h.Begin(t.Context(), NextOptions{Delta: true}); err == nil {
			t.Error("a trainable delta follows one for serving")
		}
		merged, err := h.Merge(background, 0, 1)
		check(t, err)
		again, err := Open(dir)
		check(t, err)
		d, err := Diff(background, m, again, 1, 3)
		check(t, err)
		if !merged.WeightsOnly || d.Tables[0].After != int64(n) {
			t.Errorf("merged: %+v, %+v", merged.Lineage, d.Tables)
		}
		wellVerified(t, dir)
	}
}
