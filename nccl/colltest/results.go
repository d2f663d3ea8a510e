package colltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"psrt/csrc/fold"
	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
)

var (
	allTypes = []coll.Type{coll.I8, coll.U8, coll.I32, coll.U32, coll.I64, coll.U64, coll.F16, coll.BF16, coll.F32, coll.F64}
	allKinds = []coll.Kind{coll.Barrier, coll.AllReduce, coll.ReduceScatter, coll.AllGather, coll.AllToAll, coll.AllToAllV, coll.Broadcast}
)

// fill makes elements whose sums show their order, and none that is not a number.
func fill(r *rand.Rand, t coll.Type, b []byte) {
	for at := 0; at < len(b); at += t.Size() {
		v := r.NormFloat64() * math.Exp2(float64(r.IntN(9)-4))
		switch to := b[at:]; t {
		case coll.F16:
			binary.LittleEndian.PutUint16(to, fold.ToF16(float32(v)))
		case coll.BF16:
			binary.LittleEndian.PutUint16(to, fold.ToBF16(float32(v)))
		case coll.F32:
			binary.LittleEndian.PutUint32(to, math.Float32bits(float32(v)))
		case coll.F64:
			binary.LittleEndian.PutUint64(to, math.Float64bits(v))
		default:
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], r.Uint64())
			copy(to[:t.Size()], w[:])
		}
	}
}

// calls are a call of every rank, of blocks of elements.
func (r *ranks) calls(rnd *rand.Rand, like coll.Call, elements int) []coll.Call {
	n, width := len(r.groups), like.Type.Size()
	block := elements * width
	counts := make([][]int, n) // by sender, by receiver
	for i := range counts {
		counts[i] = make([]int, n)
		for j := range counts[i] {
			counts[i][j] = rnd.IntN(elements + 1)
		}
	}
	calls := make([]coll.Call, n)
	for i := range calls {
		c := like
		send, recv := block, block
		switch like.Kind {
		case coll.Barrier:
			send, recv = 0, 0
		case coll.ReduceScatter:
			send = n * block
		case coll.AllGather:
			recv = n * block
		case coll.AllToAll:
			send, recv = n*block, n*block
		case coll.Broadcast:
			send = 0
		case coll.AllToAllV:
			send, recv = 0, 0
			c.SendCounts, c.RecvCounts = counts[i], nil
			for j := range n {
				c.RecvCounts = append(c.RecvCounts, counts[j][i])
				send += counts[i][j] * width
				recv += counts[j][i] * width
			}
		}
		c.Send, c.Recv = r.send[i][:send], r.recv[i][:recv]
		fill(rnd, c.Type, c.Send)
		fill(rnd, c.Type, c.Recv)
		calls[i] = c
	}
	return calls
}

// hold makes the calls and wants Naive's results.
func (r *ranks) hold(t *testing.T, calls []coll.Call) {
	t.Helper()
	before := make([]coll.Call, len(calls))
	for i, c := range calls {
		c.Send, c.Recv = bytes.Clone(c.Send), bytes.Clone(c.Recv)
		before[i] = c
	}
	want := Naive(coll.TreeOrder(len(calls)), before)
	for i, err := range r.each(func(i int, g coll.Group) error { return g.Do(calls[i]) }) {
		if err != nil {
			t.Fatalf("%s of %d ranks: rank %d: %v", calls[i].Kind, len(calls), i, err)
		}
	}
	for i, c := range calls {
		if at := r.differ(before, i, c.Recv, want[i]); at >= 0 {
			t.Fatalf("%s: rank %d of %d received something else than the naive form gives, from byte %d of %d on",
				describe(&c), i, len(calls), at, len(c.Recv))
		}
		if (len(c.Send) == 0 || len(c.Recv) == 0 || &c.Send[0] != &c.Recv[0]) && !bytes.Equal(c.Send, before[i].Send) {
			t.Fatalf("%s: rank %d's Send was changed", describe(&c), i)
		}
	}
}

func describe(c *coll.Call) string {
	return fmt.Sprintf("%s of type %d, operation %d, root %d", c.Kind, c.Type, c.Op, c.Root)
}

// differ says from which byte on rank's result is not what it must be, -1: nowhere.
func (r *ranks) differ(calls []coll.Call, rank int, got, want []byte) int {
	if bytes.Equal(got, want) {
		return -1
	}
	if c := calls[rank]; r.anyOrder && len(got) == len(want) && c.Kind.Reduces() && floats(c.Type) {
		c.Recv = got
		calls = slices.Clone(calls)
		calls[rank] = c
		return near(calls, rank, want)
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return i
		}
	}
	return min(len(got), len(want))
}

func testTypes(t *testing.T, f Factory) {
	rnd := seedtest.Rand(t)
	r := f.ranks(t, min(3, f.MaxRanks), 64<<10)
	for _, kind := range allKinds {
		for _, ty := range allTypes {
			for op := coll.Sum; op <= coll.Avg; op++ {
				if op > coll.Sum && !kind.Reduces() {
					break
				}
				for _, elements := range []int{3, 2 * f.EagerBytes / ty.Size() / 2} {
					r.hold(t, r.calls(rnd, coll.Call{Kind: kind, Type: ty, Op: op, Root: rnd.IntN(len(r.groups))}, min(elements+rnd.IntN(70), 16<<10/ty.Size())))
				}
			}
		}
	}
}

func testSizes(t *testing.T, f Factory) {
	rnd := seedtest.Rand(t)
	for size := 1; size <= f.MaxRanks; size++ {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			const most = 150 << 10 // of a block
			r := f.ranks(t, size, size*most)
			for _, bytes := range []int{0, 4, 64, f.EagerBytes - 4, f.EagerBytes, f.EagerBytes + 4, most - 4*rnd.IntN(1000)} {
				for _, kind := range allKinds {
					r.hold(t, r.calls(rnd, coll.Call{Kind: kind, Type: coll.F32, Root: rnd.IntN(size)}, bytes/4))
				}
			}
		})
	}
}

func testInPlace(t *testing.T, f Factory) {
	rnd := seedtest.Rand(t)
	for size := 1; size <= min(4, f.MaxRanks); size++ {
		r := f.ranks(t, size, 300<<10)
		for _, bytes := range []int{40, f.EagerBytes + 40, 300<<10 - 16} {
			calls := r.calls(rnd, coll.Call{Kind: coll.AllReduce, Type: coll.F64}, bytes/8)
			for i := range calls {
				calls[i].Recv = calls[i].Send
			}
			r.hold(t, calls)
		}
	}
}

func testAbsent(t *testing.T, f Factory) {
	rnd := seedtest.Rand(t)
	size := min(4, f.MaxRanks)
	r := f.ranks(t, size, 256<<10)
	for mask := range 1 << size {
		for _, op := range []coll.Op{coll.Sum, coll.Avg, coll.Max} {
			for _, bytes := range []int{100, 4 * f.EagerBytes} {
				for _, kind := range []coll.Kind{coll.AllReduce, coll.ReduceScatter} {
					calls := r.calls(rnd, coll.Call{Kind: kind, Type: coll.F32, Op: op}, bytes/4)
					for i := range calls {
						calls[i].Absent = mask>>i&1 == 1
					}
					r.hold(t, calls)
				}
			}
		}
	}
}

// testSequence starts many calls before it waits for any.
func testSequence(t *testing.T, f Factory) {
	rnd := seedtest.Rand(t)
	size := min(3, f.MaxRanks)
	const deep, most = 40, 20 << 10
	r := f.ranks(t, size, deep*size*most)
	var all [][]coll.Call
	var want [][][]byte
	for k := range deep {
		part := &ranks{groups: r.groups}
		for i := range r.groups {
			part.send = append(part.send, r.send[i][k*size*most:][:size*most])
			part.recv = append(part.recv, r.recv[i][k*size*most:][:size*most])
		}
		calls := part.calls(rnd, coll.Call{Kind: allKinds[rnd.IntN(len(allKinds))], Type: coll.I32, Root: rnd.IntN(size)}, rnd.IntN(most/4))
		all, want = append(all, calls), append(want, Naive(coll.TreeOrder(size), calls))
	}
	errs := r.each(func(i int, g coll.Group) error {
		var pending []*coll.Pending
		for _, calls := range all {
			pending = append(pending, g.Start(calls[i]))
		}
		for k, p := range pending {
			if err := p.Wait(); err != nil {
				return fmt.Errorf("call %d: %w", k, err)
			}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
	for k, calls := range all {
		for i, c := range calls {
			if !bytes.Equal(c.Recv, want[k][i]) {
				t.Fatalf("call %d, %s: rank %d received something else than the naive form gives", k, describe(&c), i)
			}
		}
	}
}

// testConcurrent lets several goroutines of each rank make calls that do not care
// in which order they come.
func testConcurrent(t *testing.T, f Factory) {
	const goroutines, rounds = 4, 50
	r := f.ranks(t, min(3, f.MaxRanks), goroutines*64)
	errs := r.each(func(i int, g coll.Group) error {
		done := make(chan error)
		for k := range goroutines {
			go func() {
				var err error
				for round := 0; round < rounds && err == nil; round++ {
					send, recv := r.send[i][k*64:][:4], r.recv[i][k*64:][:4]
					binary.LittleEndian.PutUint32(send, 1)
					if err = g.Do(coll.Call{Kind: coll.AllReduce, Type: coll.U32, Send: send, Recv: recv}); err == nil {
						if got := binary.LittleEndian.Uint32(recv); got != uint32(len(r.groups)) {
							err = fmt.Errorf("the sum of ones over %d ranks is %d", len(r.groups), got)
						}
					}
				}
				done <- err
			}()
		}
		var err error
		for range goroutines {
			if e := <-done; e != nil {
				err = e
			}
		}
		return err
	})
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %v", i, err)
		}
	}
}
