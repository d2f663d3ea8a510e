package gen

// stream is a counter-based generator: number i is a hash of the stream's name
// and i.
type stream struct {
	name, i uint64
}

const golden = 0x9E3779B97F4A7C15

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 27
	x *= 0x94D049BB133111EB
	return x ^ x>>31
}

// named hashes numbers into one.
func named(parts ...uint64) uint64 {
	h := uint64(golden)
	for _, p := range parts {
		h = mix(h ^ mix(p+golden))
	}
	return h
}

func (s *stream) next() uint64 {
	s.i++
	return mix(s.name + s.i*golden)
}

// unit is uniform in (0, 1], in steps of 2^-53.
func (s *stream) unit() float64 {
	return float64(s.next()>>11+1) / (1 << 53)
}

// bell turns a hash into a nearly normal integer of mean 0 and deviation 1<<16:
// the sum of four uniform 16-bit numbers, scaled.
func bell(h uint64) int64 {
	sum := int64(h&0xffff) + int64(h>>16&0xffff) + int64(h>>32&0xffff) + int64(h>>48)
	sum = 2*sum - 4*0xffff   // deviation 2*65536*sqrt(4/12) = 75674
	return sum * 56756 >> 16 // times .8660
}

// scramble32 is a bijection of 32 bits, so that distinct codes of a field stay
// distinct.
func scramble32(x, seed uint32) uint32 {
	x ^= seed
	x = (x ^ x>>16) * 0x7feb352d
	x = (x ^ x>>15) * 0x846ca68b
	return x ^ x>>16
}
