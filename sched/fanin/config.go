package fanin

import (
	"fmt"
	"math/bits"
)

const (
	MinChunk = 4 << 10   // bytes; below, the cost of a message exceeds its transfer
	MaxChunk = 128 << 10 // bytes; above, nothing gets faster and everything waits longer
	// ChunkNanos is the link time of a chunk between these two.
	ChunkNanos = 10_000

	maxRTTNanos  = 1_000_000_000
	maxRate      = 100_000_000_000 // bytes/s, 800 Gb/s
	minRate      = 1_000_000       // bytes/s: a chunk in 4 ms
	maxTransfers = 1 << 10         // of one worker: they are searched one by one
	maxWorkers   = 1 << 16
)

// Config is what is known when a receiver starts. Zero fields take the default
// in parentheses.
type Config struct {
	// Workers is how many there are; they are numbered from 0. Required.
	Workers int
	// Transfers is how many announced transfers a worker may have at a time (16).
	Transfers int
	// EagerBytes is the largest message that is sent without being announced,
	// within its connection's credits (4096). Smaller announcements are refused.
	EagerBytes int64
	// MaxBytes is the largest transfer (1 TiB).
	MaxBytes int64
	// Rate and RTTNanos are the first guesses, best the device's speed in
	// bytes/s and the time of an empty message there and back (1.25e9, 20_000).
	Rate     int64
	RTTNanos int64
	// MaxRate is the speed, in bytes/s, above which no estimate is believed
	// (100e9).
	MaxRate int64
	// SilenceNanos is the least time after which a worker that lands nothing is
	// set aside (1_000_000). On a slow or long link it is more.
	SilenceNanos int64
	// LateNanos is the least time after which a worker that lands nothing is
	// late (0: what the estimates give, see Deadline). Where workers are threads
	// that must be scheduled to answer, more than that takes.
	LateNanos int64
	// BurstBytes is how much is granted at once after a pause; a switch must be
	// able to hold it (1 MiB).
	BurstBytes int64
	// LeastChunk is the shortest chunk that estimates may lead to (MinChunk). Where
	// each grant costs both sides a wake-up, longer ones halve what bytes cost on a slow
	// link, and what waits there waits longer.
	LeastChunk int64
	// PullRun is how many bytes of pulls go ahead of a waiting push (2 MiB).
	PullRun int64
}

func (c Config) withDefaults() Config {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	if c.Transfers == 0 {
		c.Transfers = 16
	}
	def(&c.EagerBytes, 4096)
	def(&c.MaxBytes, 1<<40)
	def(&c.Rate, 1_250_000_000)
	def(&c.RTTNanos, 20_000)
	def(&c.MaxRate, maxRate)
	def(&c.SilenceNanos, 1_000_000)
	def(&c.BurstBytes, 1<<20)
	def(&c.LeastChunk, MinChunk)
	def(&c.PullRun, 2<<20)
	return c
}

func (c Config) check() error {
	for _, f := range []struct {
		name          string
		v, least, max int64
	}{
		{"Workers", int64(c.Workers), 1, maxWorkers},
		{"Transfers", int64(c.Transfers), 1, maxTransfers},
		{"EagerBytes", c.EagerBytes, 1, 1 << 40},
		{"MaxBytes", c.MaxBytes, c.EagerBytes + 1, 1 << 50},
		{"Rate", c.Rate, 1, 1 << 50},
		{"RTTNanos", c.RTTNanos, 1, 1 << 50},
		{"MaxRate", c.MaxRate, minRate, maxRate},
		{"SilenceNanos", c.SilenceNanos, 1, 1 << 50},
		{"LateNanos", c.LateNanos, 0, 1 << 50},
		{"BurstBytes", c.BurstBytes, MaxChunk, 1 << 40},
		{"LeastChunk", c.LeastChunk, MinChunk, MaxChunk},
		{"PullRun", c.PullRun, 1, 1 << 50},
	} {
		if f.v < f.least || f.v > f.max {
			return fmt.Errorf("fanin: Config.%s is %d, it must be from %d to %d", f.name, f.v, f.least, f.max)
		}
	}
	return nil
}

// Chunk is the largest grant, in bytes, at a rate in bytes/s, where Config.LeastChunk
// is not more.
func Chunk(rate int64) int64 {
	c := min(max(rate, 0), maxRate) * ChunkNanos / 1e9
	return min(max(c/MinChunk*MinChunk, MinChunk), MaxChunk)
}

// Chunks is k: how many chunks may be outstanding.
func Chunks(rate, rttNanos, chunk int64) int64 {
	flight := bytesIn(min(max(rate, 0), maxRate), min(max(rttNanos, 0), maxRTTNanos))
	return 1 + (flight+chunk-1)/chunk
}

// bytesIn is what a rate, in bytes/s, carries in nanos. The product exceeds 64 bits on a fast and long link.
func bytesIn(rate, nanos int64) int64 {
	high, low := bits.Mul64(uint64(rate), uint64(nanos))
	bytes, _ := bits.Div64(high, low, 1e9)
	return int64(bytes)
}
