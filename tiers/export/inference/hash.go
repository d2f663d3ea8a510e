package inference

import "math/bits"

const golden = 0x9e3779b97f4a7c15

// Hash is a key's place in the order of the file. It is part of the format.
func Hash(key uint64) uint64 {
	x := key + golden
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Key is Hash's inverse.
func Key(hash uint64) uint64 {
	x := hash
	x = (x ^ x>>31 ^ x>>62) * 0x319642b2d24d8ec3
	x = (x ^ x>>27 ^ x>>54) * 0x96de1b173f119089
	return (x ^ x>>30 ^ x>>60) - golden
}

// home is the block in which a row should be; homes is not 0.
func home(hash, homes uint64) uint64 {
	hi, _ := bits.Mul64(hash, homes)
	return hi
}
