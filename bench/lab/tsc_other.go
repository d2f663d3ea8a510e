//go:build !amd64

package lab

// tscKHz is 0: the emulated counter is not this processor's.
func tscKHz() uint64 { return 0 }
