package probe

// mix is a bijection of 64 bits in which every input bit reaches every output
// bit (two multiply-xorshift rounds, the finisher of SplitMix64). probe.h has
// the same one.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
