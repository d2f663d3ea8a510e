package quic

import "time"

const (
	protocol     = "psrt-quic/1"
	idleTimeout  = 30 * time.Second
	keepAlive    = 5 * time.Second
	lingerTime   = 2 * time.Second
	maxStrangers = 128
	// maxStreams of one connection: two links for each stream of each endpoint.
	maxStreams = 1 << 14
	// maxUnheard streams wait for the engine.
	maxUnheard = 128
	// A stream may have so many bytes under way: 100 ms at 10 Gb/s.
	streamWindow     = 128 << 20
	connectionWindow = 128 << 20
)
