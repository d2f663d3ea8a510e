package ring

import (
	"errors"
	"fmt"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/nccl/coll"
	"psrt/rdma/mem"
)

// Two ranks make calls of all kinds and lengths, some of which are written at once,
// one of them sometimes absent, sometimes in place.
func TestDirect(t *testing.T) {
	rng := seedtest.Rand(t)
	type turn struct {
		n       int // elements
		inPlace bool
		absent  int // rank, 2 none
		barrier bool
	}
	turns := make([]turn, 60)
	for i := range turns {
		turns[i] = turn{n: 1 + rng.IntN(directMost/4+1000), inPlace: rng.IntN(2) == 0, absent: rng.IntN(4), barrier: rng.IntN(5) == 0}
	}
	turns[7].n, turns[8].n = directMost/4, directMost/4+1
	var all []*process
	for range 2 {
		all = append(all, newProcess(t, "tcp", Options{Node: -1}))
	}
	direct := make([]int, 2)
	one := func(g *Group, rank int, x turn, k int, send, recv []byte) error {
		value := func(rank, i int) uint32 { return uint32(i*(rank+3) + k*1000 + rank) }
		in, out := mem.Uint32s(send[:4*x.n]), mem.Uint32s(recv[:4*x.n])
		if x.inPlace {
			out = in
		}
		for i := range in {
			in[i] = value(rank, i)
		}
		c := coll.Call{Kind: coll.AllReduce, Type: coll.U32, Send: mem.Bytes(in), Recv: mem.Bytes(out), Absent: x.absent == rank, Within: patience}
		if try := (op{g: g, c: &c, block: len(c.Send)}); try.isDirect() {
			direct[rank]++
		}
		if err := g.Do(c); err != nil {
			return err
		}
		for i := range out {
			want := uint32(0)
			for r := range 2 {
				if r != x.absent {
					want += value(r, i)
				}
			}
			if out[i] != want {
				return fmt.Errorf("turn %d, %+v: element %d is %d, want %d", k, x, i, out[i], want)
			}
		}
		if x.barrier {
			return g.Do(coll.Call{Kind: coll.Barrier, Within: patience})
		}
		return nil
	}
	errs := everyone(join(t, all, 1), func(rank int, g *Group) error {
		half := (directMost + 4096 + 4095) &^ 4095
		a, err := mem.New(mem.Config{Size: 2 * half, Node: -1, Purpose: "test", Share: true})
		if err != nil {
			return err
		}
		m, err := g.Register(a, "test")
		if err != nil {
			return errors.Join(err, a.Close())
		}
		for k, x := range turns {
			if err = one(g, rank, x, k, a.Bytes()[:half], a.Bytes()[half:]); err != nil {
				break
			}
		}
		return errors.Join(err, g.Close(), m.Close(), a.Close())
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if direct[0] < len(turns)/2 || direct[0] != direct[1] {
		t.Errorf("%d and %d of %d calls were written at once", direct[0], direct[1], len(turns))
	}
}
