//go:build cgo

package gpu

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/accel/acceltest"
	"psrt/csrc/cuda/cudatest"
	"psrt/csrc/kernels"
	"psrt/csrc/probe"
	"psrt/csrc/seedtest"
	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
	"psrt/tiers/table"
	"psrt/tiers/tierstest"
)

// driver is the fake one, or, with PSRT_GPU set, this machine's.
func driver(t *testing.T) string {
	if cudatest.Real(t) {
		return ""
	}
	return cudatest.Library(t)
}

func specs(t *testing.T) []table.Spec {
	all := tierstest.Specs()
	for i, dim := range []int{1, 2, 15, 16, 17, 33, 64} {
		for _, kind := range []string{table.SGD, table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL, table.Sum, table.Assign} {
			all = append(all, table.Spec{Name: fmt.Sprintf("%s-%d", kind, dim), ID: uint32(100 + i), Dim: dim, Optimizer: table.Optimizer{Kind: kind}})
		}
		for _, kind := range []string{table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL, table.SGD} {
			life := table.DefaultLifecycle()
			all = append(all, table.Spec{Name: fmt.Sprintf("life-%s-%d", kind, dim), ID: uint32(200 + i), Dim: dim, Optimizer: table.Optimizer{Kind: kind}, Lifecycle: &life})
		}
	}
	rules := []string{"", table.PartNaive, table.PartAdaGrad, table.PartStdAdaGrad, table.PartAdam, table.PartSharedAdam}
	for i, weight := range rules {
		for k, vector := range rules {
			life := table.DefaultLifecycle()
			life.Embed, life.Embedx = table.PartRule{Rule: weight}, table.PartRule{Rule: vector}
			life.ShowScale = (i+k)%2 == 0
			all = append(all, table.Spec{Name: fmt.Sprintf("life-%s-%s", cmp.Or(weight, "optimizer"), cmp.Or(vector, "optimizer")), ID: 300, Dim: []int{2, 17, 18, 40}[(i+k)%4],
				Optimizer: table.Optimizer{Kind: table.AdaGrad}, Lifecycle: &life})
		}
	}
	return slices.DeleteFunc(all, func(s table.Spec) bool { return s.Optimizer.Kind == table.User || s.Validate() != nil })
}

// TestTwins: what the kernels of a GPU do to rows, call by call, is what those of the
// host do, bit by bit.
func TestTwins(t *testing.T) {
	other := &Device{Library: driver(t)}
	for _, spec := range specs(t) {
		t.Run(spec.Name, func(t *testing.T) { twins(t, other, spec) })
	}
}

// TestTable: and so is what those do that a library's table of functions runs.
func TestTable(t *testing.T) {
	other, err := PickFrom(acceltest.Build(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(other.Name(), "device 1 of host twin in a library") {
		t.Errorf("it is %q", other.Name())
	}
	for _, spec := range specs(t) {
		t.Run(spec.Name, func(t *testing.T) { twins(t, other, spec) })
	}
}

const slots = 700

func twins(t *testing.T, other *Device, spec table.Spec) {
	r := seedtest.Rand(t)
	acc, err := accessor.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	devices := []hbm.Device{hbm.Host{Node: -1}, other}
	var arenas [2]hbm.Arena
	index := newIndex(t, slots)
	for i, d := range devices {
		if arenas[i], err = d.Open(acc, index, slots, 100); err != nil {
			t.Fatal(err)
		}
	}
	var buffers [2][]float32 // the device's own, of the widest matrix
	step := spec.Dim + r.IntN(9)
	for i, a := range arenas {
		if buffers[i], err = a.Buffer(300 * step); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, a := range arenas {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	width := acc.RowFloats()
	all, rows := make([]uint32, slots), make([]float32, slots*width)
	for i := range all {
		all[i] = uint32(i)
		acc.Born(uint64(i), rows[i*width:(i+1)*width])
	}
	if p := acc.Parts(); p != nil { // some that are admitted and extended
		for i := 0; i < slots; i += 2 {
			words := rows[i*width+int(p.Life):]
			words[kernels.LifeSlot] = math.Float32frombits(uint32(r.IntN(4)))
		}
	}
	wait := func(a hbm.Arena, f hbm.Fence) {
		t.Helper()
		if err := a.Wait(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range arenas {
		wait(a, a.CopyIn(all, rows))
	}
	same := func(what string, x, y []float32) {
		t.Helper()
		for i := range x {
			if math.Float32bits(x[i]) != math.Float32bits(y[i]) && !(x[i] != x[i] && y[i] != y[i]) {
				t.Fatalf("%s: float %d is %x of the host, %x of the GPU", what, i, math.Float32bits(x[i]), math.Float32bits(y[i]))
			}
		}
	}
	push := spec.PushFloats()
	for range 6 {
		n := 1 + r.IntN(300)
		ids, grads := make([]uint32, n), make([]float32, n*push)
		for i := range ids {
			if ids[i] = uint32(r.IntN(slots)); r.IntN(20) == 0 {
				ids[i] = table.NoRow
			}
		}
		for i := range grads {
			if grads[i] = float32(r.NormFloat64()); r.IntN(300) == 0 {
				grads[i] = []float32{0, float32(math.Inf(1)), float32(math.NaN()), 1e-42, 1e30, -1}[r.IntN(6)]
			}
		}
		if spec.Lifecycle != nil {
			for i := range ids {
				at := grads[i*push:]
				at[0], at[1], at[2] = float32(r.IntN(40)), float32(r.IntN(4)), float32(r.IntN(2))
			}
		}
		var refused [2]int
		var out [2][]float32
		for i, a := range arenas {
			wait(a, a.Update(ids, grads, &refused[i]))
			out[i] = make([]float32, n*spec.Dim)
			wait(a, a.Gather(ids, out[i], spec.Dim))
		}
		if refused[0] != refused[1] {
			t.Fatalf("the host refuses %d updates, the GPU %d", refused[0], refused[1])
		}
		same("weights gathered", out[0], out[1])
		for i, a := range arenas {
			for _, m := range [][]float32{buffers[i][:(n-1)*step+spec.Dim], make([]float32, (n-1)*step+spec.Dim)} {
				for k := range m {
					m[k] = -7
				}
				wait(a, a.Gather(ids, m, step))
				apart(t, m, out[0], spec.Dim, step)
			}
		}
		keys, there := stir(t, r, index, n)
		for i, a := range arenas {
			for _, m := range [][]float32{buffers[i][:(n-1)*step+spec.Dim], make([]float32, (n-1)*step+spec.Dim)} {
				found := make([]uint32, n)
				for k := range m {
					m[k] = -7
				}
				wait(a, a.Find(keys, found, m, step))
				if !slices.Equal(found, there) {
					t.Fatalf("keys are found in rows %v, they are in %v", found, there)
				}
				want := make([]float32, n*spec.Dim)
				wait(arenas[0], arenas[0].Gather(there, want, spec.Dim))
				apart(t, m, want, spec.Dim, step)
			}
		}
		var whole [2][]float32
		for i, a := range arenas {
			whole[i] = make([]float32, slots*width)
			wait(a, a.CopyOut(all, whole[i]))
		}
		same("rows", whole[0], whole[1])
	}
}

// newIndex is an empty index of so many rows, in memory of a mapping.
func newIndex(t *testing.T, rows int) *probe.Bounded {
	m, err := mem.New(mem.Config{Size: indexBytes(rows), Node: -1, Purpose: "index of a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return probe.NewBounded(1, rows, m.Bytes()[:probe.BoundedBuckets(rows)*probe.BucketBytes])
}

// stir has keys come to an index and go, and draws n that may be there.
func stir(t *testing.T, r *rand.Rand, index *probe.Bounded, n int) (keys []uint64, rows []uint32) {
	for range 2 * slots {
		key := r.Uint64N(2 * slots)
		if index.Delete(key) || index.Len() == slots {
			continue
		}
		if err := index.Set(key, r.Uint32N(slots)); err != nil {
			t.Fatal(err)
		}
	}
	keys, rows = make([]uint64, n), make([]uint32, n)
	for i := range keys {
		keys[i] = r.Uint64N(2 * slots)
	}
	index.Find(keys, rows)
	return keys, rows
}

// apart holds the rows of a wider matrix against those that lie together, and what is
// between them against what was there.
func apart(t *testing.T, wide, rows []float32, dim, step int) {
	t.Helper()
	for i, x := range wide {
		want := float32(-7)
		if i%step < dim {
			want = rows[i/step*dim+i%step]
		}
		if math.Float32bits(x) != math.Float32bits(want) && !(x != x && want != want) {
			t.Fatalf("float %d of a matrix of rows %d floats apart is %v, want %v", i, step, x, want)
		}
	}
}

// TestBudget: what is taken of the device is within the bytes that Slots was asked for.
func TestBudget(t *testing.T) {
	d := &Device{Library: driver(t)}
	for _, spec := range specs(t) {
		for _, bytes := range []int64{0, 1 << 16, 1 << 20, 1<<20 + 13} {
			n := d.Slots(&spec, bytes, 64)
			if n == 0 {
				continue
			}
			acc, err := accessor.New(spec, 1)
			if err != nil {
				t.Fatal(err)
			}
			a, err := d.Open(acc, nil, n, 64)
			if err != nil {
				t.Fatal(err)
			}
			if a.Bytes() > bytes {
				t.Errorf("%s: %d rows take %d bytes of %d", spec.Name, n, a.Bytes(), bytes)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
