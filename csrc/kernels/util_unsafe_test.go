package kernels

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// special are values at which forms of a kernel like to differ.
var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32,
	1e-39, -1e-39, math.MaxFloat32, -math.MaxFloat32, 1e-20, 1e20,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
}

// fill draws ordinary values, and with odds 1 in hard a special one.
func fill(r *rand.Rand, s []float32, hard int) {
	for i := range s {
		s[i] = float32(r.NormFloat64())
		if hard > 0 && r.IntN(hard) == 0 {
			s[i] = special[r.IntN(len(special))]
		}
	}
}

// firstDifference compares bits; NaNs are all one value.
func firstDifference(a, b []float32) int {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			return i
		}
	}
	return -1
}

// offHeap is memory that C may walk through an address.
func offHeap(t testing.TB, floats int) []float32 {
	m, err := syscall.Mmap(-1, 0, floats*4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), floats)
}

// makeRows lays count rows out in slabs of 2^shift, one float off alignment.
func makeRows(t testing.TB, count, stride int, shift uint) (*Rows, []float32) {
	slabs := (count + 1<<shift - 1) >> shift
	m := offHeap(t, (slabs<<shift)*stride+1)[1:]
	rows := &Rows{Shift: shift, Stride: stride, Count: count}
	for s := range slabs {
		rows.Bases = append(rows.Bases, &m[(s<<shift)*stride])
	}
	return rows, m[:count*stride]
}
