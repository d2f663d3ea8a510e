package rule

import (
	"errors"
	"fmt"
	"strings"

	"psrt/csrc/kernels"
)

// ErrNotSupported is returned where psrt was built without cgo.
var ErrNotSupported = errors.New("rule: this psrt was built without cgo and cannot load a table rule from a shared library")

// MaxState bounds a rule's floats of state behind a row.
const MaxState = 16384

// Facts are what a library says about its rule.
type Facts struct {
	Name    string
	State   int  // floats behind a row's weights
	Ordered bool // pushes must not be added up before the rule sees them
}

// Rule is an instance of a loaded rule. It belongs to one goroutine.
type Rule struct {
	Facts
	dim int
	in  instance
}

// Open loads the library at path, which must have a slash in it, for rows of dim
// weights.
func Open(path, params string, dim int) (*Rule, error) {
	if !strings.Contains(path, "/") {
		return nil, fmt.Errorf("rule: library %q: name it with its folder, ./%s", path, path)
	}
	if strings.ContainsRune(path+params, 0) {
		return nil, fmt.Errorf("rule: library %q: a zero byte in its name or params", path)
	}
	in, facts, err := load(path, params, dim)
	if err != nil {
		return nil, fmt.Errorf("rule: library %s: %w", path, err)
	}
	r := &Rule{Facts: facts, dim: dim, in: in}
	if facts.State > MaxState {
		r.Close()
		return nil, fmt.Errorf("rule: library %s: %s wants %d floats of state a row, at most %d", path, facts.Name, facts.State, MaxState)
	}
	return r, nil
}

// Begin sets up the rows [first, first+len(keys)), whose weights are drawn and
// whose state is 0.
func (r *Rule) Begin(rows *kernels.Rows, first int, keys []uint64) {
	if len(keys) == 0 {
		return
	}
	r.check(rows)
	if first < 0 || first+len(keys) > rows.Count {
		panic(fmt.Sprintf("rule: rows %d to %d begin, there are %d", first, first+len(keys), rows.Count))
	}
	r.in.begin(rows, first, keys)
}

// Update applies grads, len(ids) x dim, to the rows of ids. A row whose gradient
// is not finite, or an id that is no row, is left as it is; refused counts those.
func (r *Rule) Update(rows *kernels.Rows, ids []uint32, grads []float32) (refused int) {
	if len(ids) == 0 {
		return 0
	}
	r.check(rows)
	if len(grads) < len(ids)*r.dim {
		panic(fmt.Sprintf("rule: %d gradients for %d rows of %d", len(grads), len(ids), r.dim))
	}
	return r.in.update(rows, ids, grads)
}

func (r *Rule) check(rows *kernels.Rows) {
	if rows.Stride < r.dim+r.State || rows.Shift > 31 || rows.Count > len(rows.Bases)<<rows.Shift {
		panic(fmt.Sprintf("rule: %d rows of %d floats in %d slabs do not hold %d floats a row", rows.Count, rows.Stride, len(rows.Bases), r.dim+r.State))
	}
}

// Close ends the instance. Closing again does nothing.
func (r *Rule) Close() { r.in.close() }
