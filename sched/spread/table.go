package spread

import (
	"errors"
	"fmt"
	"time"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/nccl/coll"
	"psrt/rdma/mem"
	"psrt/sched/place"
	"psrt/tiers"
	"psrt/tiers/table"
)

// Config is one rank's end of a table.
type Config struct {
	Group coll.Group
	// Rows are this rank's, of the same table at all ranks; who made them closes them.
	Rows tiers.Rows
	// Map has a server of one lane for each rank, by number; see Shares.
	Map *place.Map
	// BatchRows bounds the keys that a rank pulls at once, the same at all ranks.
	BatchRows int
	// Within bounds each exchange and each lookup, ErrLate; 0 is a minute.
	Within time.Duration
	Node   int // NUMA node of what is exchanged, -1 for any
}

// ErrBatch marks a batch that cannot be exchanged.
var ErrBatch = errors.New("spread: bad batch")

// ErrLate marks a lookup that did not end in time. Rows goes on with it, and what it finds
// stays pinned: close Rows, and begin again from a checkpoint.
var ErrLate = errors.New("spread: rows are late")

// Table is one rank's end. One goroutine uses it; ranks make the same calls in the
// same order.
type Table struct {
	cfg   Config
	n     int // ranks
	dim   int
	arena *mem.Arena
	known coll.Memory

	counts  [2][]uint64 // keys, by rank: those that go out, those that come
	keysOut []uint64    // BatchRows
	keysIn  []uint64    // of all ranks
	mine    []float32   // BatchRows rows or gradients, in the order of keysOut
	others  []float32   // likewise of keysIn
	sums    []float32   // of the gradients, a row each
	dedup   probe.DedupScratch
	owners  []uint16
	merges  []kernels.Merge
	pulling bool // between Pull and Release
}

// maxBatchRows bounds the memory of an exchange.
const maxBatchRows = 1 << 24

// New registers memory with the group.
func New(cfg Config) (*Table, error) {
	n, spec := cfg.Group.Size(), cfg.Rows.Spec()
	switch {
	case spec.Lifecycle != nil || spec.PushFloats() != spec.Dim:
		return nil, fmt.Errorf("spread: table %q has a lifecycle, whose counters are no gradients to be added: it stays on servers", spec.Name)
	case cfg.BatchRows < 1 || cfg.BatchRows > maxBatchRows:
		return nil, fmt.Errorf("spread: batches of %d rows, want 1 to %d", cfg.BatchRows, maxBatchRows)
	case len(cfg.Map.Servers) != n || cfg.Map.Lanes() != n:
		return nil, fmt.Errorf("spread: a map of %d servers with %d lanes for %d ranks, want one of each a rank: make it with Shares", len(cfg.Map.Servers), cfg.Map.Lanes(), n)
	}
	if cfg.Within == 0 {
		cfg.Within = time.Minute
	}
	t := &Table{cfg: cfg, n: n, dim: spec.Dim, owners: make([]uint16, cfg.BatchRows)}
	for _, m := range coll.TreeOrder(n) {
		t.merges = append(t.merges, kernels.Merge(m))
	}
	b := cfg.BatchRows
	size := 2*8*n + 8*b*(1+n) + 4*spec.Dim*b*(1+n)
	var err error
	if t.arena, err = mem.New(mem.Config{Size: size, Node: cfg.Node, Share: true, Purpose: "rows exchanged among cards"}); err != nil {
		return nil, err
	}
	if t.known, err = cfg.Group.Register(t.arena, "rows of table "+spec.Name); err != nil {
		return nil, errors.Join(err, t.arena.Close())
	}
	left := t.known.Bytes()
	words := func(n int) []uint64 {
		w := mem.Uint64s(left[:8*n])
		left = left[8*n:]
		return w
	}
	t.counts = [2][]uint64{words(n), words(n)}
	t.keysOut, t.keysIn = words(b), words(b*n)
	all := mem.Float32s(left[:4*spec.Dim*b*(1+n)])
	t.mine, t.others = all[:spec.Dim*b], all[spec.Dim*b:]
	t.sums = make([]float32, spec.Dim*b*n)
	return t, nil
}

// Close gives the memory back, before the group is closed; with coll.ErrWrites it stays. Rows and group are the
// caller's.
func (t *Table) Close() error { return coll.GiveBack(t.known, t.arena) }

// broken aborts the group for an error that the others do not have.
func (t *Table) broken(err error) error {
	if err != nil && t.cfg.Group.Err() == nil {
		t.cfg.Group.Abort(err)
	}
	return err
}

// exchange is an all-to-all of width elements a key.
func (t *Table) exchange(typ coll.Type, send, recv []byte, out, in []int, width int) error {
	scaled := func(keys []int) []int {
		all := make([]int, len(keys))
		for i, k := range keys {
			all[i] = k * width
		}
		return all
	}
	return t.cfg.Group.Do(coll.Call{Kind: coll.AllToAllV, Type: typ, Send: send, Recv: recv,
		SendCounts: scaled(out), RecvCounts: scaled(in), Within: t.cfg.Within})
}

// Digest is that of the rows at all ranks.
func (t *Table) Digest() (sum table.Digest, err error) {
	mine, err := t.cfg.Rows.Digest()
	if err = t.broken(err); err != nil {
		return sum, err
	}
	all := make([]byte, 0, t.n*len(mine))
	// A digest is four words; each is sent to all, in turn, by the exchange of counts.
	for at := 0; at < len(mine); at += 8 {
		for r := range t.counts[0] {
			copy(mem.Bytes(t.counts[0][r:r+1]), mine[at:at+8])
		}
		if err := t.swapCounts(); err != nil {
			return sum, err
		}
		all = append(all, mem.Bytes(t.counts[1])...)
	}
	for r := range t.n {
		var d table.Digest
		for at := 0; at < len(d); at += 8 {
			copy(d[at:at+8], all[at*t.n+8*r:])
		}
		sum.Add(d)
	}
	return sum, nil
}

// swapCounts gives each rank a word and has one of each.
func (t *Table) swapCounts() error {
	return t.cfg.Group.Do(coll.Call{Kind: coll.AllToAll, Type: coll.U64, Send: mem.Bytes(t.counts[0]), Recv: mem.Bytes(t.counts[1]), Within: t.cfg.Within})
}
