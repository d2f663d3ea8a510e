package spread

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
	"psrt/nccl/ring"
	"psrt/rdma/dial"
	"psrt/rdma/invariant"
	"psrt/tiers"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

// patience is for a machine ten times slower.
const patience = 2 * time.Minute

// groups are ranks of one process, by rings over shared memory.
func groups(t *testing.T, n int) []coll.Group {
	t.Helper()
	members, addrs := make([]*ring.Member, n), make([]string, n)
	for i := range members {
		host, err := dial.New(dial.Config{Transport: "shm", Token: []byte("the token of all tests, long enough")})
		if err != nil {
			t.Fatal(err)
		}
		if members[i], err = ring.Listen(host, "127.0.0.1:0", "spread", ring.Options{Timeout: patience, Node: -1}); err != nil {
			t.Fatal(err)
		}
		addrs[i] = members[i].Addr()
		t.Cleanup(func() { _ = errors.Join(members[i].Close(), host.Close()) })
	}
	out, errs := make([]coll.Group, n), make([]error, n)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	together(n, func(rank int) {
		out[rank], errs[rank] = members[rank].Join(ctx, ring.Place{Rank: rank, Size: n, Epoch: 1}, func(_ context.Context, r int) (string, error) { return addrs[r], nil })
	})
	for _, g := range out {
		if g != nil {
			t.Cleanup(func() { _ = g.Close() })
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

func together(n int, do func(rank int)) {
	var all sync.WaitGroup
	for rank := range n {
		all.Go(func() { do(rank) })
	}
	all.Wait()
}

var spec = table.Spec{Name: "t", ID: 1, Dim: 5, Optimizer: table.Optimizer{Kind: table.AdaGrad}}

// cached is a card's twin over memory, with room for rows of the nearest batches only.
func cached(t *testing.T, batchRows int) tiers.Rows {
	t.Helper()
	below, err := tiers.NewMemory(spec, 1, tiers.MemoryConfig{Node: -1, Tracked: true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := hbm.New(below, hbm.Config{Device: hbm.Host{Node: -1}, MaxBytes: int64(5 * batchRows * spec.RowBytes() / 2), BatchRows: batchRows, Node: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// micro is a micro-batch: keys, each once, and their gradients.
type micro struct {
	keys  []uint64
	grads []float32
}

const most = 60

func draw(r *rand.Rand) micro {
	var m micro
	seen := map[uint64]bool{}
	for range r.IntN(most) {
		key := r.Uint64N(200) << 20
		if seen[key] {
			continue
		}
		seen[key] = true
		m.keys = append(m.keys, key)
		for range spec.Dim {
			m.grads = append(m.grads, float32(r.NormFloat64()))
		}
	}
	return m
}

// alone is a step of one card that has all micro-batches: it adds them in the tree.
func alone(t *testing.T, rows tiers.Rows, parts []micro) (weights []map[uint64][]float32) {
	t.Helper()
	var all []uint64
	for _, m := range parts {
		all = append(all, m.keys...)
	}
	occ, keys := make([]int32, len(all)), make([]uint64, len(all))
	keys = keys[:probe.Dedup(new(probe.DedupScratch), all, occ, keys)]
	l := &tiers.Lookup{Keys: keys, Rows: make([]uint32, len(keys)), Create: true}
	if !rows.Start(l) || l.Err != nil {
		t.Fatal("a lookup in memory: ", l.Err)
	}
	got := make([]float32, len(keys)*spec.Dim)
	rows.Gather(l.Rows, got)
	srcs, idx := make([][]float32, len(parts)), make([][]int32, len(parts))
	at := 0
	for p, m := range parts {
		srcs[p], idx[p] = m.grads, make([]int32, len(keys))
		for i := range idx[p] {
			idx[p][i] = -1
		}
		of := map[uint64][]float32{}
		for i, key := range m.keys {
			u := int(occ[at+i])
			idx[p][u] = int32(i)
			of[key] = got[u*spec.Dim : (u+1)*spec.Dim]
		}
		at += len(m.keys)
		weights = append(weights, of)
	}
	sums := make([]float32, len(got))
	var merges []kernels.Merge
	for _, m := range coll.TreeOrder(len(parts)) {
		merges = append(merges, kernels.Merge(m))
	}
	kernels.TreeSumRows(sums, spec.Dim, len(keys), srcs, idx, merges)
	if refused := rows.Apply(l.Rows, sums); refused > 0 {
		t.Fatalf("%d refused", refused)
	}
	rows.Release(l.Rows)
	return weights
}

// TestSameAsOne: rows spread over cards, unlike ones too, that are exchanged are those of
// one card, weight by weight and in the digest.
func TestSameAsOne(t *testing.T) {
	for _, n := range []int{1, 3, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := seedtest.Rand(t)
			speeds := make([]float64, n)
			for i := range speeds {
				speeds[i] = float64(1 + r.IntN(4))
			}
			shares, err := Shares(speeds)
			if err != nil {
				t.Fatal(err)
			}
			one := cached(t, n*most)
			all := make([]*Table, n)
			held := make([]tiers.Rows, n)
			for rank, g := range groups(t, n) {
				held[rank] = cached(t, n*most)
				if all[rank], err = New(Config{Group: g, Rows: held[rank], Map: shares, BatchRows: most, Within: patience, Node: -1}); err != nil {
					t.Fatal(err)
				}
			}
			steps := 40
			if testing.Short() {
				steps = 8
			}
			for range steps {
				parts := make([]micro, n)
				for i := range parts {
					parts[i] = draw(r)
				}
				weights := alone(t, one, parts)
				errs := make([]error, n)
				together(n, func(rank int) { errs[rank] = step(all[rank], parts[rank], weights[rank], spec.Dim+rank) })
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
			want, err := one.Digest()
			if err != nil {
				t.Fatal(err)
			}
			digests, errs := make([]table.Digest, n), make([]error, n)
			together(n, func(rank int) { digests[rank], errs[rank] = all[rank].Digest() })
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			total := 0
			for rank := range n {
				if total += held[rank].Len(); digests[rank] != want {
					t.Errorf("rank %d has digest %s, one card %s", rank, digests[rank], want)
				}
				if err := all[rank].Close(); err != nil {
					t.Error(err)
				}
			}
			if total != one.Len() {
				t.Errorf("%d rows on %d cards, %d on one", total, n, one.Len())
			}
		})
	}
}

// step is what a rank does in one, with weights held against those of one card.
func step(t *Table, m micro, weights map[uint64][]float32, apart int) error {
	got := make([]float32, len(m.keys)*apart)
	b, err := t.Pull(m.keys, got, apart, true)
	if err != nil {
		return err
	}
	defer t.Release(b)
	for i, key := range m.keys {
		for j, want := range weights[key] {
			if x := got[i*apart+j]; x != want {
				return fmt.Errorf("weight %d of key %#x is %v, of one card %v", j, key, x, want)
			}
		}
	}
	refused, err := t.Push(b, m.grads)
	if refused > 0 {
		err = errors.Join(err, fmt.Errorf("%d refused", refused))
	}
	return err
}

// TestFails: a rank that does what it may not ends the call at all, which hear why.
func TestFails(t *testing.T) {
	for name, m := range map[string]micro{
		"room":  {keys: make([]uint64, most+1)},
		"twice": {keys: []uint64{7, 7}, grads: make([]float32, 2*spec.Dim)},
	} {
		t.Run(name, func(t *testing.T) {
			shares, err := Shares([]float64{1, 1})
			if err != nil {
				t.Fatal(err)
			}
			parts, errs := []micro{m, {keys: []uint64{1}, grads: make([]float32, spec.Dim)}}, make([]error, 2)
			all, rows := groups(t, 2), []tiers.Rows{cached(t, 2*most), cached(t, 2*most)}
			together(2, func(rank int) {
				x, err := New(Config{Group: all[rank], Rows: rows[rank], Map: shares, BatchRows: most, Within: patience, Node: -1})
				if err == nil {
					err = step(x, parts[rank], nil, spec.Dim)
					for range 3 { // it may have been another's rank to notice
						if err == nil {
							err = step(x, micro{}, nil, spec.Dim)
						}
					}
					_ = x.Close()
				}
				errs[rank] = err
			})
			said := fmt.Sprint(errs)
			if errs[0] == nil || errs[1] == nil || !strings.Contains(said, name) {
				t.Errorf("it ends with %v", said)
			}
		})
	}
}

// never has a lookup that does not end.
type never struct{ tiers.Rows }

func (never) Start(*tiers.Lookup) bool { return false }
func (never) Poll() []*tiers.Lookup    { return nil }

// TestLate: rows that do not come in time are said to be late, and what to do.
func TestLate(t *testing.T) {
	shares, err := Shares([]float64{1})
	if err != nil {
		t.Fatal(err)
	}
	x, err := New(Config{Group: groups(t, 1)[0], Rows: never{cached(t, most)}, Map: shares, BatchRows: most, Within: patience, Node: -1})
	if err != nil {
		t.Fatal(err)
	}
	x.cfg.Within = time.Nanosecond // of what follows, which is no exchange
	if err := x.lookUp(&tiers.Lookup{Keys: []uint64{1, 2}, Rows: make([]uint32, 2)}); !errors.Is(err, ErrLate) || !strings.Contains(err.Error(), "2 keys") {
		t.Errorf("a lookup that does not end: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnfit: what cannot be spread is refused before anything is exchanged.
func TestUnfit(t *testing.T) {
	if _, err := Shares([]float64{1, 0}); err == nil || !strings.Contains(err.Error(), "card 1") {
		t.Errorf("a card without a speed: %v", err)
	}
	shares, err := Shares([]float64{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	g := groups(t, 1)[0]
	for says, cfg := range map[string]Config{
		"2 servers":    {Group: g, Rows: cached(t, most), Map: shares, BatchRows: most},
		"batches of 0": {Group: g, Rows: cached(t, most), Map: shares},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
