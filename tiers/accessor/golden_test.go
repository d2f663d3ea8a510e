package accessor

// Bits, computed by a second implementation in another language, of key 2^64-1 in table 3 with seed 42, scale .5, one zero before.
var (
	goldenUniform = []uint32{0, 0xbea92eb4, 0xbed3a36c, 0x3e62123c}
	goldenNormal  = []uint32{0, 0xbf0b4a80, 0xbe9e5500, 0xbe556600}
)
