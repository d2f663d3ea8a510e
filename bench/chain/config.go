package chain

import (
	"fmt"
	"slices"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/tiers/table"
)

// Links.
const (
	LinkVeth = cable.Veth // a namespace for each process, and a rate
	LinkNone = cable.None // loopback
)

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = cable.ErrNoLink

// Parts of a run.
const (
	Goodput  = "goodput"
	Failover = "failover"
	Full     = "full"
	Move     = "move"
)

// Parts are all of them.
var Parts = []string{Goodput, Failover, Full, Move}

// Config of one run.
type Config struct {
	Parts      []string
	Bytes      int           // gradients of a push
	Depth      int           // pushes on their way
	Duration   time.Duration // of a window of pushes, and of what is watched before and after a fault
	Rounds     int           // windows of each kind, which take turns; kills of each member
	StateBytes int           // values that a server has to get back
	Seed       uint64

	Link       string
	RateBits   int64  // per second, towards each process
	QueueBytes int    // that the switch's port holds
	Congestion string // TCP's congestion control on the link; "" as the system's

	// Part is the program again: with a role as its last argument it must call
	// ServePart.
	Part child.Command
}

const (
	dim      = 64 // floats of a row
	rowBytes = 4 * dim
	servers  = 3
	// moveGroups and moveReplicas: groups enough that a server more gets its share.
	moveGroups   = 12
	moveReplicas = 2

	maxRounds    = 100
	maxDuration  = time.Minute
	maxDepth     = 16
	maxBytes     = 64 << 20
	minRateBits  = 10_000_000
	maxRateBits  = 100_000_000_000
	minQueue     = 16 << 10
	maxQueue     = 1 << 30
	maxState     = 4 << 30
	smallRows    = 64 // of the pulls and pushes that are watched
	linkTime     = 500 * time.Millisecond
	patience     = 2 * time.Minute
	stillFor     = 2 * time.Second // a map that has not changed for so long is the last
	callPatience = 30 * time.Second
)

// sums is what is trained: a row is the sum of what was pushed to it.
var sums = table.Spec{Name: "sum", ID: 1, Dim: dim, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.SGD, LR: 1}}

// Check refuses what cannot be run.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("chain: "+format, args...) }
	between := func(what string, v, least, most int64) error {
		if v < least || v > most {
			return bad("%s is %d, want %d to %d", what, v, least, most)
		}
		return nil
	}
	if len(c.Parts) == 0 {
		return bad("no part, want some of %v", Parts)
	}
	for i, p := range c.Parts {
		if !slices.Contains(Parts, p) || slices.Contains(c.Parts[:i], p) {
			return bad("part %q, want some of %v, each once", p, Parts)
		}
	}
	if c.Link != LinkVeth && c.Link != LinkNone {
		return bad("link %q, want %s or %s", c.Link, LinkVeth, LinkNone)
	}
	if c.Link == LinkNone && c.Congestion != "" {
		return bad("congestion control %s for loopback, want a link of its own (--link %s)", c.Congestion, LinkVeth)
	}
	if c.Duration <= 0 || c.Duration > maxDuration {
		return bad("%v for a window, want more than 0 and at most %v", c.Duration, maxDuration)
	}
	for _, x := range []struct {
		what           string
		v, least, most int64
	}{
		{"the size of a push", int64(c.Bytes), rowBytes, maxBytes},
		{"the number of pushes on their way", int64(c.Depth), 1, maxDepth},
		{"the number of rounds", int64(c.Rounds), 1, maxRounds},
		{"the size of the state", int64(c.StateBytes), int64(c.Bytes), maxState},
		{"the rate in bit/s", c.RateBits, minRateBits, maxRateBits},
		{"the size of the switch's queue", int64(c.QueueBytes), minQueue, maxQueue},
	} {
		if err := between(x.what, x.v, x.least, x.most); err != nil {
			return err
		}
	}
	if c.Bytes%rowBytes != 0 {
		return bad("pushes of %d bytes, want a multiple of a row's %d", c.Bytes, rowBytes)
	}
	return nil
}
