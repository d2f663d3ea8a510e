package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

// drawParts is a layout with two of the test's rules.
func drawParts(r *rand.Rand, dim int) *Parts {
	p := &Parts{Dim: int32(dim), Seq: 7, AdmitBy: AdmitBy(r.IntN(3)), ShowScale: int32(r.IntN(2)),
		Nonclk: 0.1, Click: 1, ExtendAt: 3, AdmitAt: 1.5}
	for i := range p.Rules {
		p.Rules[i] = testRules[r.IntN(len(testRules))]
		p.Bounded[i] = int32(r.IntN(2))
		p.Lo[i], p.Hi[i] = -0.5, 0.75
	}
	p.VectorState = p.Dim + int32(p.Rules[0].Kind.StateFloats(1))
	p.Life = p.VectorState
	if dim > 1 {
		p.Life += int32(p.Rules[1].Kind.StateFloats(dim - 1))
	}
	return p
}

// fillPartsRow is a plausible row, some with strange weights.
func fillPartsRow(r *rand.Rand, p *Parts, row []float32) {
	dim := int(p.Dim)
	fill(r, row[:p.Life], 25)
	first := append(row[:1:1], row[dim:p.VectorState]...)
	newState(&p.Rules[0], 1, first)
	copy(row[dim:], first[1:])
	rest := append(slices.Clone(row[1:dim]), row[p.VectorState:p.Life]...)
	newState(&p.Rules[1], dim-1, rest)
	copy(row[p.VectorState:p.Life], rest[dim-1:])
	life := row[p.Life:]
	for _, at := range []int{LifeShow, LifeClick, LifeDelta, LifePending} {
		PutCounter(life[at:], r.Float64()*3)
	}
	life[LifeSeq] = math.Float32frombits(p.Seq)
	if r.IntN(6) == 0 {
		life[LifeSeq] = math.Float32frombits(r.Uint32N(7))
	}
	life[LifeUnseen] = math.Float32frombits(r.Uint32N(40))
	life[LifeSlot] = math.Float32frombits(r.Uint32N(1<<24)<<8 | r.Uint32N(16))
}

func drawPush(r *rand.Rand, p *Parts, push []float32) {
	fill(r, push, 100)
	if r.IntN(20) > 0 {
		push[0], push[1], push[2] = float32(r.IntN(1<<24)), float32(r.IntN(4)), float32(r.IntN(2))
	}
	if r.IntN(20) == 0 { // both ends of what a slot may be
		push[0] = []float32{0, 1<<24 - 1, 1 << 24, -1}[r.IntN(4)]
	}
}

// naivePush is UpdateParts for one row, out of UpdateInto and arithmetic as it
// is written down.
func naivePush(p *Parts, row, push []float32) (refused bool) {
	dim, life := int(p.Dim), row[p.Life:]
	for _, x := range push {
		if x != x || x-x != 0 {
			return true
		}
	}
	if push[0] < 0 || push[0] >= 1<<24 || push[1] < 0 || push[2] < 0 || math.Float32bits(life[LifeSeq]) != p.Seq {
		return true
	}
	flags := math.Float32bits(life[LifeSlot]) & 255
	grad := slices.Clone(push[PushCounts:])
	if p.ShowScale == 1 && push[1] != 0 {
		for i := range grad {
			grad[i] /= push[1]
			if learns := flags&Admitted != 0 && (i == 0 || flags&Extended != 0); learns && math.IsInf(float64(grad[i]), 0) {
				return true
			}
		}
	}
	score := func(s, c float64) float64 { return float64(p.Nonclk*(s-c)) + float64(p.Click*c) }
	add := func(at int, x float64) float64 {
		sum := Counter(life[at:]) + x
		PutCounter(life[at:], sum)
		return sum
	}
	show, click := add(LifeShow, float64(push[1])), add(LifeClick, float64(push[2]))
	add(LifeDelta, score(float64(push[1]), float64(push[2])))
	life[LifeUnseen] = math.Float32frombits(0)
	learn := func(part int, w, s, g []float32) {
		if len(w) == 0 {
			return
		}
		plainRow(&p.Rules[part], w, w, s, g)
		for i := range w {
			if p.Bounded[part] == 1 && (w[i] != w[i] || w[i] < p.Lo[part]) {
				w[i] = p.Lo[part]
			} else if p.Bounded[part] == 1 && w[i] > p.Hi[part] {
				w[i] = p.Hi[part]
			}
		}
	}
	if flags&Admitted != 0 {
		learn(0, row[:1], row[dim:p.VectorState], grad[:1])
		if flags&Extended != 0 {
			learn(1, row[1:dim], row[p.VectorState:p.Life], grad[1:])
		}
	}
	reached := map[AdmitBy]float64{AdmitAlways: math.Inf(1), AdmitShow: show, AdmitScore: score(show, click)}[p.AdmitBy]
	if reached >= p.AdmitAt {
		flags |= Admitted
	}
	if flags&Admitted != 0 && score(show, click) >= p.ExtendAt {
		flags |= Extended
	}
	life[LifeSlot] = math.Float32frombits(uint32(push[0])<<8 | flags)
	return false
}

// TestUpdateParts holds every level to the naive form, to the bit; what no push
// may touch (pending, seq) is part of the row and so compared.
func TestUpdateParts(t *testing.T) {
	r := seedtest.Rand(t)
	for round := range 300 {
		dim := 1 + round%67
		p := drawParts(r, dim)
		const count = 17
		stride := int(p.Life) + LifeFloats + r.IntN(3)
		rows, mem := makeRows(t, count, stride, 3)
		for i := range count {
			fillPartsRow(r, p, mem[i*stride:(i+1)*stride])
		}
		start := slices.Clone(mem)
		ids := []uint32{^uint32(0), count}
		for _, i := range append(r.Perm(count), 3, 3) {
			ids = append(ids, uint32(i))
		}
		push := make([]float32, len(ids)*(PushCounts+dim))
		for i := range ids {
			drawPush(r, p, push[i*(PushCounts+dim):(i+1)*(PushCounts+dim)])
		}
		want, wantRefused := slices.Clone(start), 1
		for i, id := range ids[2:] {
			if naivePush(p, want[int(id)*stride:int(id+1)*stride], push[(i+2)*(PushCounts+dim):(i+3)*(PushCounts+dim)]) {
				wantRefused++
			}
		}
		for _, l := range Levels() {
			copy(mem, start)
			refused := l.UpdateParts(p, rows, ids, push)
			if i := firstDifference(mem, want); i >= 0 || refused != wantRefused {
				t.Fatalf("round %d, rules %d and %d, dim %d: level %v: row %d float %d (words at %d) is %x, want %x; %d refused, want %d", round,
					p.Rules[0].Kind, p.Rules[1].Kind, dim, l, i/stride, i%stride, p.Life,
					math.Float32bits(mem[max(i, 0)]), math.Float32bits(want[max(i, 0)]), refused, wantRefused)
			}
		}
	}
}

// TestPartsRefuseSmallShows: what a row would learn is refused where a show below 1 makes
// it infinite, counters and all; what it would not learn is not looked at.
func TestPartsRefuseSmallShows(t *testing.T) {
	const dim = 19
	rule := Rule{Kind: SGD, LR: 0.5}
	p := &Parts{Dim: dim, Rules: [2]Rule{rule, rule}, VectorState: dim, Life: dim, ShowScale: 1, Nonclk: 0.1, Click: 1, ExtendAt: math.Inf(1)}
	for _, c := range []struct {
		flags   uint32
		at      int // which element of the gradient is large
		refused int
	}{{0, 0, 0}, {Admitted, 0, 1}, {Admitted, dim - 1, 0}, {Admitted | Extended, 0, 1}, {Admitted | Extended, dim - 1, 1}} {
		for _, l := range Levels() {
			rows, mem := makeRows(t, 1, dim+LifeFloats, 0)
			mem[dim+LifeSlot] = math.Float32frombits(c.flags)
			before := slices.Clone(mem)
			push := make([]float32, PushCounts+dim)
			push[1], push[PushCounts+c.at] = 1e-20, 1e20
			refused := l.UpdateParts(p, rows, []uint32{0}, push)
			if same := firstDifference(mem, before) < 0; refused != c.refused || same != (refused == 1) {
				t.Errorf("%v, flags %d, element %d: %d refused, want %d; the row stayed as it was: %v", l, c.flags, c.at, refused, c.refused, same)
			}
		}
	}
}

// TestGatherParts: what does not live is zero, at every level.
func TestGatherParts(t *testing.T) {
	r := seedtest.Rand(t)
	for dim := 1; dim <= 67; dim++ {
		p := drawParts(r, dim)
		const count = 20
		stride := int(p.Life) + LifeFloats
		rows, mem := makeRows(t, count, stride, 2)
		for i := range count {
			fillPartsRow(r, p, mem[i*stride:(i+1)*stride])
		}
		ids := []uint32{^uint32(0), count, 0}
		for range 40 {
			ids = append(ids, r.Uint32N(count))
		}
		want, lag := make([]float32, len(ids)*dim), []uint32{}
		for i, id := range ids {
			if id >= count {
				continue
			}
			row := mem[int(id)*stride : int(id+1)*stride]
			if math.Float32bits(row[int(p.Life)+LifeSeq]) != p.Seq {
				lag = append(lag, uint32(i))
			}
			n := [4]int{0, 1, 0, dim}[math.Float32bits(row[int(p.Life)+LifeSlot])&3]
			copy(want[i*dim:], row[:n])
		}
		for _, l := range Levels() {
			step := dim + r.IntN(3)
			dst := make([]float32, len(ids)*step+1)
			fill(r, dst, 0)
			apart := slices.Clone(dst)
			for i := range ids {
				copy(apart[i*step:], want[i*dim:(i+1)*dim])
			}
			l.GatherParts(p, dst, step, rows, ids)
			if i := firstDifference(dst, apart); i >= 0 {
				t.Fatalf("%v: dim %d, step %d: float %d of row %d differs", l, dim, step, i%step, i/step)
			}
			out := make([]uint32, len(ids))
			if n := l.Lagging(p, rows, ids, out); !slices.Equal(out[:n], lag) {
				t.Fatalf("%v: %v lag, want %v", l, out[:n], lag)
			}
		}
	}
}

// TestUpdateLeavesWords: the update of whole rows keeps to weights and state,
// whatever lies behind them.
func TestUpdateLeavesWords(t *testing.T) {
	r := seedtest.Rand(t)
	for _, rule := range testRules {
		const dim = 21
		width := dim + rule.Kind.StateFloats(dim)
		for _, l := range Levels() {
			rows, row := makeRows(t, 1, width+LifeFloats, 0)
			fill(r, row, 0)
			newState(&rule, dim, row[:width])
			words := slices.Clone(row[width:])
			grad := make([]float32, dim)
			fill(r, grad, 0)
			l.Update(&rule, dim, rows, []uint32{0}, grad)
			if i := firstDifference(row[width:], words); i >= 0 {
				t.Errorf("kind %d, %v: word %d was written", rule.Kind, l, i)
			}
		}
	}
}

func TestPartsLengths(t *testing.T) {
	good := drawParts(seedtest.Rand(t), 4)
	stride := int(good.Life) + LifeFloats
	rows, _ := makeRows(t, 1, stride, 0)
	short := *rows
	short.Stride--
	moved := *good
	moved.Life++
	ids, one := []uint32{0}, make([]float32, 7)
	for i, f := range []func(){
		func() { UpdateParts(good, rows, ids, one[:6]) },
		func() { UpdateParts(good, &short, ids, one) },
		func() { UpdateParts(&moved, rows, ids, one) },
		func() { GatherParts(good, one[:3], 4, rows, ids) },
		func() { Lagging(good, rows, ids, nil) },
		func() { rows.Row(1, 4) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("case %d was accepted", i)
				}
			}()
			f()
		}()
	}
}

// BenchmarkUpdateParts: beside an Update of the same rows without words.
func BenchmarkUpdateParts(b *testing.B) {
	const dim, count = 17, 1 << 17
	for _, isLife := range []bool{false, true} {
		rule := Rule{Kind: AdaGrad, LR: 0.05, Eps: 1e-8}
		p := &Parts{Dim: dim, Rules: [2]Rule{rule, rule}, VectorState: dim + 1, Life: 2 * dim, Nonclk: 0.1, Click: 1, ShowScale: 1}
		stride := 2 * dim
		if isLife {
			stride += LifeFloats
		}
		rows, mem := makeRows(b, count, stride, 12)
		ids, push := make([]uint32, 4096), make([]float32, 4096*(PushCounts+dim))
		for i := range count {
			newState(&rule, dim, mem[i*stride:i*stride+2*dim])
			if isLife {
				mem[i*stride+2*dim+LifeSlot] = math.Float32frombits(Admitted | Extended)
			}
		}
		for i := range push {
			push[i] = 1
		}
		for i := range ids {
			ids[i] = rand.Uint32N(count)
		}
		b.Run(fmt.Sprintf("lifecycle=%v", isLife), func(b *testing.B) {
			for b.Loop() {
				if isLife {
					UpdateParts(p, rows, ids, push)
				} else {
					Update(&rule, dim, rows, ids, push)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/row")
		})
	}
}
