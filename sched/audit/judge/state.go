package judge

import (
	"fmt"

	"psrt/sched/audit"
	"psrt/tiers"
	"psrt/tiers/accessor"
	"psrt/tiers/dense"
	"psrt/tiers/table"
)

// state is what rows, or dense blocks, are at some version.
type state interface {
	// apply adds the parts of one version to a row.
	apply(key uint64, parts []part) error
	load(key uint64, row []float32) error
	reset() error
	// happen lets events of the table's lifecycle happen to all rows; lives says
	// whether it has one.
	happen(events []accessor.Event) error
	lives() bool
	// fits checks that pushed rows are of a width that the keys can have.
	fits(keys []uint64, width int) error
	// hash is of a row's weights; other is what a look that makes no rows may see
	// instead, where that is something else.
	hash(key uint64) (is, other uint64)
	close() error
}

// newState is a table of a lane as it begins.
func (j *judgement) newState() (state, error) {
	if j.h.table == audit.DenseTable {
		return newBlocks(j.h.head, j.r.rate)
	}
	for i := range j.r.head.Tables {
		if s := &j.r.head.Tables[i]; s.ID == j.h.table {
			return newRows(j.r.head, s)
		}
	}
	return nil, &unjudgedError{fmt.Sprintf("values of table %s are not compared: it was made while the job ran", j.table)}
}

// unjudgedError says why values cannot be compared.
type unjudgedError struct{ why string }

func (e *unjudgedError) Error() string { return e.why }

// rows is a sparse table.
type rows struct {
	head    *audit.LaneHeader
	spec    *table.Spec
	t       *tiers.Memory
	touched map[uint64]struct{} // pushed to, or loaded: no look sees zeros
	row     [1]uint32
	key     [1]uint64
	out     []float32
}

func newRows(head *audit.LaneHeader, spec *table.Spec) (*rows, error) {
	t, err := tiers.NewMemory(*spec, head.Seed, tiers.MemoryConfig{Node: -1})
	if err != nil {
		return nil, fmt.Errorf("audit: table %s: %w", spec.Name, err)
	}
	return &rows{head: head, spec: spec, t: t, touched: map[uint64]struct{}{}, out: make([]float32, spec.Dim)}, nil
}

// find is a row's place, made if it is not there and create says so.
func (r *rows) find(key uint64, create bool) error {
	r.key[0] = key
	l := tiers.Lookup{Keys: r.key[:], Rows: r.row[:], Create: create}
	if r.t.Start(&l); l.Err != nil {
		return fmt.Errorf("audit: table %s: %w", r.spec.Name, l.Err)
	}
	return nil
}

func (r *rows) apply(key uint64, parts []part) error {
	if err := r.find(key, true); err != nil {
		return err
	}
	defer r.t.Release(r.row[:])
	r.touched[key] = struct{}{}
	if !r.spec.Optimizer.Adds() {
		for _, p := range parts {
			r.t.Apply(r.row[:], p.grads)
		}
		return nil
	}
	sum := parts[0].grads
	if len(parts) > 1 {
		sum = add(parts, r.head.StalenessOf(r.spec.ID), r.head.Workers, r.head.Merges)
		if r.lives() && sum != nil { // slots are not added
			sum[0] = parts[len(parts)-1].grads[0]
		}
	}
	if sum != nil {
		r.t.Apply(r.row[:], sum)
	}
	return nil
}

func (r *rows) load(key uint64, row []float32) error {
	if len(row) != r.spec.RowFloats() {
		return &InputError{fmt.Errorf("audit: table %s: a loaded row of %d floats, want %d", r.spec.Name, len(row), r.spec.RowFloats())}
	}
	r.touched[key] = struct{}{}
	return r.t.Load(key, row)
}

func (r *rows) fits(keys []uint64, width int) error {
	if len(keys) > 0 && width != r.spec.PushFloats() {
		return &InputError{fmt.Errorf("audit: table %s: a push with rows of %d floats, want %d", r.spec.Name, width, r.spec.PushFloats())}
	}
	return nil
}

func (r *rows) reset() error {
	clear(r.touched)
	if err := r.t.Accessor().Restore(accessor.Memo{}); err != nil {
		return err
	}
	return r.t.Reset()
}

func (r *rows) lives() bool { return r.spec.Lifecycle != nil }

func (r *rows) happen(events []accessor.Event) error {
	for _, e := range events {
		if err := r.t.Happen(e); err != nil {
			return &InputError{fmt.Errorf("audit: %w", err)}
		}
	}
	return nil
}

func (r *rows) hash(key uint64) (is, other uint64) {
	if err := r.find(key, false); err != nil {
		return 0, 0
	}
	if r.row[0] == table.NoRow { // nor is it what it was if it has ended
		delete(r.touched, key)
		if err := r.find(key, r.spec.CreatesOnPull()); err != nil {
			return 0, 0
		}
	}
	defer r.t.Release(r.row[:])
	r.t.Gather(r.row[:], r.out)
	is = audit.Hash(r.out)
	if _, ok := r.touched[key]; ok {
		return is, is
	}
	clear(r.out)
	return is, audit.Hash(r.out)
}

func (r *rows) close() error { return r.t.Close() }

// blocks is a lane's part of the dense vector, of recorded elements only.
type blocks struct {
	head *audit.LaneHeader
	rate float64
	v    *dense.Vector
	at   map[uint64]int // by block
}

func newBlocks(head *audit.LaneHeader, rate float64) (*blocks, error) {
	d := &head.Dense
	if len(d.Blocks) == 0 {
		return nil, &unjudgedError{fmt.Sprintf("lane %d has no dense blocks, and pushes to them", head.Lane)}
	}
	b := &blocks{head: head, rate: rate, at: map[uint64]int{}}
	var parts []dense.Part
	for i, block := range d.Blocks {
		rule := dense.Rule{Optimizer: d.Optimizer}
		if block.Rule == "ema" {
			rule = dense.Rule{EMA: d.EMA}
		}
		parts = append(parts, dense.Part{Rule: rule, Values: block.Init})
		b.at[uint64(block.Index)] = i
	}
	var err error
	b.v, err = dense.New(parts, -1)
	return b, err
}

func (b *blocks) apply(key uint64, parts []part) error {
	i, ok := b.at[key]
	if !ok {
		return &InputError{fmt.Errorf("audit: lane %d has no dense block %d, and a push to it", b.head.Lane, key)}
	}
	n := len(b.v.Values(i))
	for k := range parts { // all are as wide as the widest
		if parts[k].grads != nil {
			parts[k].grads = parts[k].grads[:n]
		}
	}
	defer b.v.Publish()
	d, staleness := &b.head.Dense, b.head.StalenessOf(audit.DenseTable)
	if d.Blocks[i].Rule == "ema" && staleness != 0 || d.Blocks[i].Rule != "ema" && !d.Optimizer.Adds() {
		for _, p := range parts {
			if p.grads != nil {
				b.v.Apply(i, p.grads)
			}
		}
		return nil
	}
	sum := add(parts, staleness, b.head.Workers, b.head.Merges)
	if sum == nil {
		sum = make([]float32, n)
	}
	b.v.Apply(i, sum)
	return nil
}

func (b *blocks) load(key uint64, row []float32) error {
	i, ok := b.at[key]
	if !ok {
		return &InputError{fmt.Errorf("audit: lane %d has no dense block %d, and loads it", b.head.Lane, key)}
	}
	n := len(b.v.Values(i))
	if len(row) != n+len(b.v.State(i)) {
		return &InputError{fmt.Errorf("audit: lane %d: dense block %d is loaded with %d floats, want %d", b.head.Lane, key, len(row), n+len(b.v.State(i)))}
	}
	err := b.v.Load(i, row[:n], row[n:])
	b.v.Publish()
	return err
}

func (b *blocks) fits(keys []uint64, width int) error {
	for _, k := range keys {
		if i, ok := b.at[k]; !ok || len(b.v.Values(i)) > width {
			return &InputError{fmt.Errorf("audit: lane %d: a push of %d floats to dense block %d", b.head.Lane, width, k)}
		}
	}
	return nil
}

// reset has nothing to do: all blocks are loaded.
func (b *blocks) reset() error { return nil }

func (b *blocks) lives() bool { return false }

func (b *blocks) happen([]accessor.Event) error { return nil }

func (b *blocks) hash(key uint64) (is, other uint64) {
	i, ok := b.at[key]
	if !ok {
		return 0, 0
	}
	is = audit.Hash(b.v.Values(i))
	return is, is
}

func (b *blocks) close() error { return b.v.Close() }
