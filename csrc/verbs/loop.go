package verbs

import "time"

// Loop describes a bare loop in C, as loop.h does: what a program without any
// runtime reaches on this queue pair. Nothing else may use it and its
// completion queue meanwhile.
type Loop struct {
	Local, Remote uint64 // addresses
	Line          uint64 // where the peer's ping arrives
	First         uint64 // number of the first ping, not 0
	Timeout       time.Duration
	LKey, RKey    uint32
	Bytes, Slots  int // Bytes at least 8
	Iterations    int
	Every         int // of these one is signaled; Slots is a multiple of it
	Op            uint32
	InlineMax     int // pings up to here go inline
	Starts        bool
}
