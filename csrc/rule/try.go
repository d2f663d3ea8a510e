package rule

import (
	"fmt"
	"math"
	"runtime"
	"slices"

	"psrt/csrc/kernels"
)

// What Try does: tryRows rows get tryPushes gradients each, between guards.
const (
	tryRows    = 37
	tryPushes  = 4
	tryGuard   = 64 // floats before and behind every row
	guardValue = float32(-123456.75)
)

// Try loads a rule, runs it on rows of its own and says what it is. It refuses
// one that writes where no row is, or whose rows come out differently when the
// same gradients come in other batches: with such a rule the same pushes would
// not give the same model.
func Try(path, params string, dim int) (Facts, error) {
	// Kept open meanwhile, so that what the library keeps to itself is not
	// forgotten between the runs.
	keep, err := Open(path, params, dim)
	if err != nil {
		return Facts{}, err
	}
	defer keep.Close()
	facts, whole, err := trial(path, params, dim, tryRows, false)
	if err != nil {
		return facts, err
	}
	for _, way := range []struct {
		name     string
		batch    int
		backward bool
	}{{"a second run", tryRows, false}, {"rows one by one", 1, false}, {"rows in another order", 5, true}} {
		_, rows, err := trial(path, params, dim, way.batch, way.backward)
		if err != nil {
			return facts, err
		}
		if at := differ(rows, whole); at >= 0 {
			width := dim + facts.State
			return facts, fmt.Errorf("rule: library %s: %s gives other results in %s: float %d of row %d is %v, was %v; a row's result must depend on that row, its key and its gradient alone",
				path, facts.Name, way.name, at%width, at/width, rows[at], whole[at])
		}
	}
	return facts, nil
}

// trial gives the rows, one behind the other, after all pushes in batches.
func trial(path, params string, dim, batch int, backward bool) (Facts, []float32, error) {
	r, err := Open(path, params, dim)
	if err != nil {
		return Facts{}, nil, err
	}
	defer r.Close()
	width := dim + r.State
	stride := width + tryGuard
	mem := make([]float32, tryGuard+tryRows*stride)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&mem[0])
	for i := range mem {
		mem[i] = guardValue
	}
	row := func(i int) []float32 { return mem[tryGuard+i*stride:][:width] }
	noise := noise(1)
	for i := range tryRows {
		clear(row(i))
		for j := range dim {
			row(i)[j] = noise.next()
		}
	}
	rows := &kernels.Rows{Bases: []*float32{&mem[tryGuard]}, Shift: 6, Stride: stride, Count: tryRows}
	pin.Pin(&rows.Bases[0])
	keys, ids := make([]uint64, tryRows), make([]uint32, tryRows)
	for i := range keys {
		keys[i], ids[i] = uint64(i)*0x9e3779b97f4a7c15, uint32(i)
	}
	if backward {
		slices.Reverse(ids)
	}
	for i := 0; i < tryRows; i += batch {
		r.Begin(rows, i, keys[i:min(i+batch, tryRows)])
	}
	grads, mine := make([]float32, tryRows*dim), make([]float32, tryRows*dim)
	for range tryPushes {
		for i := range grads {
			grads[i] = noise.next()
		}
		for i, id := range ids {
			copy(mine[i*dim:(i+1)*dim], grads[int(id)*dim:])
		}
		for i := 0; i < tryRows; i += batch {
			end := min(i+batch, tryRows)
			r.Update(rows, ids[i:end], mine[i*dim:end*dim])
		}
	}
	out := make([]float32, 0, tryRows*width)
	for i := range tryRows {
		out = append(out, row(i)...)
	}
	for i, x := range mem {
		if at := i - tryGuard; (at < 0 || at%stride >= width) && x != guardValue {
			return r.Facts, nil, fmt.Errorf("rule: library %s: %s wrote where no row is, %d floats behind the beginning of one of %d weights and %d floats of state", path, r.Name, (at+stride)%stride, dim, r.State)
		}
	}
	return r.Facts, out, nil
}

func differ(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i
		}
	}
	return -1
}

// noise is a small generator: what is tried is the same on every server.
type noise uint64

func (n *noise) next() float32 {
	*n = *n*6364136223846793005 + 1442695040888963407
	return float32(int32(*n>>33)-1<<30) / (1 << 31)
}
