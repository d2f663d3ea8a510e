package combine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"psrt/csrc/kernels"
	"psrt/csrc/seedtest"
	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/client"
	"psrt/sched/heter"
	"psrt/sched/tree"
)

// order writes down what merges make of names, with all brackets; "" is absent.
func order[M any](merges []M, pair func(M) (dst, src int32), names []string) string {
	v := slices.Clone(names)
	for _, m := range merges {
		switch d, s := pair(m); {
		case v[d] == "":
			v[d] = v[s]
		case v[s] != "":
			v[d] = "(" + v[d] + "+" + v[s] + ")"
		}
	}
	return v[0]
}

// What carriers add, and then servers, to which the carried are absent, is what servers
// would add without.
func TestGroupsKeepTheOrder(t *testing.T) {
	rng := seedtest.Rand(t)
	top := func(m tree.Merge) (int32, int32) { return m.Dst, m.Src }
	inner := func(m kernels.Merge) (int32, int32) { return m.Dst, m.Src }
	combined := 0
	for range 500 {
		workers := 1 + rng.IntN(16)
		shares, err := tree.Shares(workers+rng.IntN(40), workers)
		if err != nil {
			t.Fatal(err)
		}
		merges, err := tree.Top(shares)
		if err != nil {
			t.Fatal(err)
		}
		names, hosts := make([]string, workers), make([]string, workers)
		for w := range workers {
			names[w], hosts[w] = fmt.Sprint(w), fmt.Sprint(w/(1+rng.IntN(4)))
		}
		groups := Groups(merges, hosts)
		pushed := make([]string, workers)
		for w, g := range groups {
			if !slices.Contains(g.Workers, w) || g.Carrier() != slices.Min(g.Workers) {
				t.Fatalf("worker %d is in %+v", w, g)
			}
			if g.Carrier() != w {
				continue
			}
			var own []string
			for _, other := range g.Workers {
				if hosts[other] != hosts[w] || groups[other] != g {
					t.Fatalf("worker %d of %q carries %d of %q", w, hosts[w], other, hosts[other])
				}
				own = append(own, names[other])
			}
			pushed[w] = order(g.Merges, inner, own)
			combined += len(g.Carried())
		}
		if got, want := order(merges, top, pushed), order(merges, top, names); got != want {
			t.Fatalf("hosts %v: %s, want %s", hosts, got, want)
		}
	}
	if combined == 0 {
		t.Error("nobody was carried")
	}
}

func TestRequestsComeBack(t *testing.T) {
	size := sizes{values: 4, grads: 6, dense: 10}
	want := request{kind: kindPush, clock: 1 << 40, examples: 77, batch: 4096, rows: 3,
		sparse: client.Window{Memory: rdma.RemoteRange{Key: 5, Addr: 64, Len: 256}, Keys: 0, Values: 64, Grads: 128},
		dense:  client.Window{Memory: rdma.RemoteRange{Key: 6, Addr: 128, Len: 128}, Values: 0, Grads: 64}}
	floats := make([]float32, requestFloats)
	want.encode(floats)
	head := want.head()
	var got request
	if err := got.decode(&head, floats, size); err != nil || got != want {
		t.Errorf("%+v: %v", got, err)
	}
	for name, spoil := range map[string]func(*request){
		"more keys than memory": func(r *request) { r.rows = 33 },
		"values past the end":   func(r *request) { r.sparse.Values = 212 },
		"gradients past it":     func(r *request) { r.sparse.Grads = 188 },
		"an odd place":          func(r *request) { r.sparse.Values = 2 },
		"odd memory":            func(r *request) { r.sparse.Memory.Addr = 4 },
		"a vector past the end": func(r *request) { r.dense.Grads = 96 },
		"a place beyond all":    func(r *request) { r.dense.Values = math.MaxUint64 - 3 },
		"rows beyond all":       func(r *request) { r.rows = math.MaxInt64 },
		"another kind":          func(r *request) { r.kind = kinds },
	} {
		bad := want
		spoil(&bad)
		bad.encode(floats)
		head := bad.head()
		if err := new(request).decode(&head, floats, size); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Whatever a member says, what is taken of it lies in the memory that it names.
func FuzzRequest(f *testing.F) {
	f.Add(uint16(headKind), uint32(0), make([]byte, requestBytes))
	f.Fuzz(func(t *testing.T, kind uint16, option uint32, body []byte) {
		floats := make([]float32, requestFloats)
		copy(mem.Bytes(floats), body)
		size := sizes{values: 3, grads: 5, dense: 7}
		var r request
		if r.decode(&heter.Head{Kind: kind, Epoch: option}, floats, size) != nil {
			return
		}
		for _, memory := range []rdma.RemoteRange{r.sparse.Memory, r.dense.Memory} {
			if memory.Len > 1<<20 {
				return
			}
		}
		sparse, dense := make([]uint64, r.sparse.Memory.Len/8+1), make([]uint64, r.dense.Memory.Len/8+1)
		b, d := mem.Bytes(sparse)[:r.sparse.Memory.Len], mem.Bytes(dense)[:r.dense.Memory.Len]
		keysAt(b, r.sparse.Keys, r.rows)
		floatsAt(b, r.sparse.Values, r.rows*size.values)
		floatsAt(b, r.sparse.Grads, r.rows*size.grads)
		floatsAt(d, r.dense.Values, size.dense)
		floatsAt(d, r.dense.Grads, size.dense)
	})
}

// A hub that rests when its end comes does not wait for who waited in its stead.
func TestNobodyWaitsForServers(t *testing.T) {
	h := &Hub{armed: make(chan struct{}, 1), back: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.wake(ctx)
	h.armed <- struct{}{}
	select {
	case <-h.back:
	default:
		t.Error("the hub would rest for ever")
	}
}
