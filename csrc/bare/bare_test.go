package bare

import (
	"slices"
	"syscall"
	"testing"

	"psrt/csrc/seedtest"
)

const odd = 0x9e3779b97f4a7c15

// offHeap gives n zero bytes outside Go's heap.
func offHeap(t *testing.T, n int) []byte {
	t.Helper()
	b, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestInverse(t *testing.T) {
	r := seedtest.Rand(t)
	for range 1000 {
		if x := r.Uint64() | 1; x*InverseOf(x) != 1 {
			t.Fatalf("%#x times %#x is not 1", x, InverseOf(x))
		}
	}
}

// TestLevels holds every form to a map, with strangers among the keys.
func TestLevels(t *testing.T) {
	r := seedtest.Rand(t)
	for level := 0; level <= best(); level++ {
		for _, c := range []struct{ n, dim, stride int }{{1, 1, 1}, {50, 3, 7}, {300, 16, 16}, {300, 16, 17}, {90, 64, 128}, {40, 130, 390}} {
			first := r.Uint64()
			tab := &Table{Slots: Slots(offHeap(t, c.n*SlotBytes)), Rows: floatsOf(offHeap(t, c.n*c.stride*4)), Stride: c.stride, First: first, Inverse: InverseOf(odd)}
			want := map[uint64][]float32{}
			var keys []uint64
			for _, i := range r.Perm(c.n) {
				keys = append(keys, (first+uint64(i))*odd)
			}
			values := make([]float32, c.n*c.stride)
			for i := range values {
				values[i] = r.Float32()
			}
			for i, k := range keys {
				want[k] = slices.Clone(values[i*c.stride:][:c.stride])
			}
			half := c.n / 2
			tab.insert(level, keys[:half], values)
			tab.next = half
			tab.insert(level, keys[half:], values[half*c.stride:])
			tab.next = c.n

			asked := append(slices.Clone(keys), r.Uint64(), (first+uint64(c.n))*odd, (first-1)*odd)
			r.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
			ids, plain := make([]uint32, len(asked)), make([]uint32, len(asked))
			tab.Find(asked, ids)
			tab.plainFind(asked, plain)
			if !slices.Equal(ids, plain) {
				t.Fatalf("level %d, %+v: find %v, want %v", level, c, ids, plain)
			}
			grads := make([]float32, len(asked)*c.dim)
			for i := range grads {
				grads[i] = r.Float32() - 0.5
			}
			tab.update(level, ids, c.dim, grads, 0.3)
			dst := make([]float32, len(asked)*c.dim)
			for i := range dst {
				dst[i] = 99
			}
			tab.pull(level, asked, c.dim, dst)
			for i, k := range asked {
				row := want[k]
				if (row == nil) != (ids[i] == NoRow) {
					t.Fatalf("level %d, %+v: key %#x has row %d", level, c, k, ids[i])
				}
				if row == nil {
					row = make([]float32, c.stride)
				} else {
					for j := range row {
						row[j] -= float32(0.3 * grads[i*c.dim+j%c.dim])
					}
					if got := tab.Rows[int(ids[i])*c.stride:][:c.stride]; !slices.Equal(got, row) {
						t.Fatalf("level %d, %+v: row of %#x after the update is %v, want %v", level, c, k, got, row)
					}
				}
				if got := dst[i*c.dim:][:c.dim]; !slices.Equal(got, row[:c.dim]) {
					t.Fatalf("level %d, %+v: pulled %v for %#x, want %v", level, c, got, k, row[:c.dim])
				}
			}
		}
	}
}

// What would walk out of the memory is refused in Go.
func TestRefusals(t *testing.T) {
	tab := &Table{Slots: Slots(offHeap(t, 64)), Rows: floatsOf(offHeap(t, 64)), Stride: 4, Inverse: 1}
	tab.Insert(make([]uint64, 3), make([]float32, 12))
	for name, call := range map[string]func(){
		"ids":     func() { tab.Find(make([]uint64, 2), make([]uint32, 1)) },
		"dst":     func() { tab.Pull(make([]uint64, 2), 4, make([]float32, 7)) },
		"dim":     func() { tab.Pull(make([]uint64, 1), 5, make([]float32, 7)) },
		"grads":   func() { tab.Update(make([]uint32, 2), 4, make([]float32, 7), 1) },
		"no dim":  func() { tab.Update(make([]uint32, 2), 0, nil, 1) },
		"full":    func() { tab.Insert(make([]uint64, 2), make([]float32, 8)) },
		"empty":   func() { (&Table{Stride: 1}).Find(make([]uint64, 1), make([]uint32, 1)) },
		"no rows": func() { (&Table{Slots: tab.Slots, Stride: 5, Rows: tab.Rows}).Find(nil, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			call()
		}()
	}
	if tab.Len() != 3 {
		t.Errorf("%d rows, want 3", tab.Len())
	}
}
