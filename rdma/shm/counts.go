package shm

import (
	"sync/atomic"

	"psrt/rdma"
)

// counts of one endpoint. Each has one writer at a time; they are atomic for
// the reader in Stats.
type counts struct {
	posted, sentBytes        atomic.Uint64
	completed, receivedBytes atomic.Uint64
	copiedOutBytes           atomic.Uint64
}

func (c *counts) addTo(s *rdma.Stats) {
	s.Posted += c.posted.Load()
	s.SentBytes += c.sentBytes.Load()
	s.Completed += c.completed.Load()
	s.ReceivedBytes += c.receivedBytes.Load()
	s.CopiedOutBytes += c.copiedOutBytes.Load()
}
