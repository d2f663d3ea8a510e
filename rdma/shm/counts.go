package shm

import (
	"sync/atomic"

	"psrt/rdma"
)

// counts of one endpoint. Each has one writer at a time; they are atomic for
// the reader in Stats.
type counts struct {
	posted, sent             atomic.Uint64 // requests; sent: their completions polled
	sentBytes, receivedBytes atomic.Uint64
	copiedOutBytes           atomic.Uint64
}

// addCounts adds them to s. Receives are counted where they are kept: one
// atomic less for each message.
func (e *Endpoint) addCounts(s *rdma.Stats) {
	c := &e.counts
	s.Posted += c.posted.Load()
	s.SentBytes += c.sentBytes.Load()
	s.Completed += c.sent.Load() + e.consumed.Load()
	s.ReceivedBytes += c.receivedBytes.Load()
	s.CopiedOutBytes += c.copiedOutBytes.Load()
}
