package server

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/tiers"
	"psrt/tiers/table"
)

// The sum of a row's gradients of several steps is applied as so many steps with their mean, each
// row by itself; rules to which it makes no difference are asked once.
func TestSumsOfSteps(t *testing.T) {
	const dim, keys = 3, 50
	r := seedtest.Rand(t)
	for _, rule := range []table.Optimizer{{Kind: table.SGD}, {Kind: table.AdaGrad}, {Kind: table.RowAdaGrad}, {Kind: table.Adam}, {Kind: table.FTRL}, {Kind: table.Sum}} {
		t.Run(rule.Kind, func(t *testing.T) {
			spec := table.Spec{Name: "rows", ID: 1, Dim: dim, Init: table.Init{Kind: "uniform", Scale: .1}, Optimizer: rule.WithDefaults()}
			spread, sole := timesTable(t, spec, keys), timesTable(t, spec, keys)
			l := &lane{}
			for range 5 {
				rows, grads, times := []uint32{}, []float32{}, []uint8{}
				for _, i := range r.Perm(keys)[:1+r.IntN(keys)] {
					rows, times = append(rows, uint32(i)), append(times, uint8(r.IntN(5)))
					for range dim {
						grads = append(grads, float32(r.NormFloat64()))
					}
				}
				for i, n := range times {
					g, n := slices.Clone(grads[i*dim:(i+1)*dim]), int(n)
					if n < 2 || !spec.Optimizer.Repeats() {
						n = 1
					}
					for j := range g {
						g[j] /= float32(n)
					}
					for range n {
						sole.Apply(rows[i:i+1], g)
					}
				}
				if refused := l.applyTimes(&tableState{spec: spec, rows: spread}, rows, grads, times); refused != 0 {
					t.Fatalf("%d rows are refused", refused)
				}
			}
			if got, want := timesWords(spread, keys), timesWords(sole, keys); got != want {
				t.Errorf("rows are\n%s, row by row\n%s", got, want)
			}
		})
	}
}

// A gradient that is not finite is refused once, however many steps it is the sum of.
func TestSumsOfStepsRefused(t *testing.T) {
	spec := table.Spec{Name: "rows", ID: 1, Dim: 1, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.Adam}.WithDefaults()}
	l, rows := &lane{}, timesTable(t, spec, 2)
	if n := l.applyTimes(&tableState{spec: spec, rows: rows}, []uint32{0, 1}, []float32{float32(math.Inf(1)), 2}, []uint8{4, 4}); n != 1 {
		t.Errorf("%d rows are refused, want 1", n)
	}
}

// What several workers push of a row is of as many steps as the one that has most says.
func TestTimesOfMergedPushes(t *testing.T) {
	m := &mergeScratch{occ: []int32{0, 1, 2, 1, 3, 0}}
	of := func(times ...uint8) *request { return &request{rows: make([]uint32, 2), times: times} }
	if got := m.timesOf([]*request{of(), nil, of(), of()}, 4); got != nil {
		t.Errorf("%d of single steps", got)
	}
	m.times = []uint8{9, 9, 9, 9}
	if got, want := m.timesOf([]*request{of(), nil, of(3, 7), of(2, 4)}, 4), []uint8{4, 7, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("of %d steps, want %d", got, want)
	}
}

func timesTable(t *testing.T, spec table.Spec, n int) *tiers.Memory {
	m, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1})
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	look := tiers.Lookup{Keys: make([]uint64, n), Rows: make([]uint32, n), Create: true}
	for i := range look.Keys {
		look.Keys[i] = uint64(i)
	}
	if !m.Start(&look) || look.Err != nil {
		t.Fatal(look.Err)
	}
	for i, row := range look.Rows {
		if int(row) != i {
			t.Fatalf("key %d has row %d", i, row)
		}
	}
	return m
}

// timesWords is all that a table's rows have, as text.
func timesWords(m *tiers.Memory, n int) (all string) {
	rows := make([]uint32, n)
	for i := range rows {
		rows[i] = uint32(i)
	}
	m.Edit(rows, func(i int, key uint64, row []float32) { all += fmt.Sprintln(key, row) })
	return all
}
