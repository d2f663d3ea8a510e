package allreduce

import "psrt/nccl/ring"

// setUp is the first word to a rank.
type setUp struct {
	Transport  string
	Token      []byte
	Rank, Size int
	Most       int // bytes of the longest vector
	Options    ring.Options
	NCCL       bool // adds, over a group of the ring's
}

// here is its answer: where its member and its plain socket listen.
type here struct {
	Member, Plain string
	Err           string
}

// everyone is told then, and answered by an outcome.
type everyone struct{ Members, Plains []string }

// turn is one size in one round.
type turn struct {
	Limit             bool // the limit's turn
	Bytes, Iterations int
	Seed              uint32
}

// outcome of a turn at a rank.
type outcome struct {
	Micros     []float64 // of each iteration
	Checksum   uint32
	CPU        float64 // seconds
	Transports []string
	Err        string
}
