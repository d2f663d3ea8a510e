package codec

import "hash/crc32"

// ring is slots of one size at one distance.
type ring struct {
	b             []byte
	slots, stride int
	size          int // bytes of a message
}

func newRing(slots, stride, size int) *ring {
	return &ring{b: make([]byte, slots*stride), slots: slots, stride: stride, size: size}
}

func (r *ring) slot(i int) []byte { return r.b[i*r.stride:][:r.size] }

// copyFrom copies n messages from the slots of another ring, in turn: the
// limit.
func (r *ring) copyFrom(from *ring, n int) {
	for i, at := 0, 0; i < n; i++ {
		copy(r.slot(at), from.slot(at))
		if at++; at == r.slots {
			at = 0
		}
	}
}

func (r *ring) sum() uint32 {
	sum := uint32(0)
	for i := range r.slots {
		sum = crc32.Update(sum, crc32.IEEETable, r.slot(i))
	}
	return sum
}

// words adds up 64-bit words, four at a time.
func words(v []uint64) uint64 {
	var a, b, c, d uint64
	for ; len(v) >= 4; v = v[4:] {
		a, b, c, d = a+v[0], b+v[1], c+v[2], d+v[3]
	}
	for _, w := range v {
		a += w
	}
	return a + b + c + d
}
