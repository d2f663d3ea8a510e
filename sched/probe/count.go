package probe

import "net/netip"

// Source is where bytes come from, as finely as the probe can tell; what it
// cannot tell is zero.
type Source struct {
	Peer      netip.AddrPort // port 0: all of the address
	Interface string         // they came in by
	QueuePair uint32         // of ours, that they go to
}

// Count is what has come from a Source since it began. It only grows; a Source
// whose Count is smaller than before has begun anew.
type Count struct {
	Bytes uint64 // of payload
	// Messages are those ended. TCP has none: there they are segments with
	// data.
	Messages uint64
	// Repeated are messages that had come before, which are in neither. TCP
	// leaves them out without saying how many.
	Repeated uint64
}

func (c *Count) add(o Count) {
	c.Bytes += o.Bytes
	c.Messages += o.Messages
	c.Repeated += o.Repeated
}

// since is the growth from an earlier Count.
func (c Count) since(before Count) Count {
	if c.Bytes < before.Bytes || c.Messages < before.Messages {
		return c
	}
	return Count{c.Bytes - before.Bytes, c.Messages - before.Messages, c.Repeated - min(before.Repeated, c.Repeated)}
}

// Sample is one Source's Count.
type Sample struct {
	Source
	Count
}

// Reading is all Samples of one moment, each Source once. A Source that is in
// it no more is over.
type Reading struct {
	Samples []Sample
	// Lost is what did not fit into a bounded table: connections that ended
	// (TCP), packets (RoCE), batches (USDT). Their bytes are missing.
	Lost uint64
}

// Meter is a source of Readings: programs in the kernel, or the runtime's own
// counters. One goroutine uses it.
type Meter interface {
	// Read replaces what is in the Reading, whose memory it uses again.
	Read(*Reading) error
	Close() error
}

// Counters makes a Meter of the runtime's own counters, for where the kernel
// gives none: f fills the empty Reading.
func Counters(f func(*Reading)) Meter { return counters(f) }

type counters func(*Reading)

func (c counters) Read(r *Reading) error {
	r.reset()
	c(r)
	return nil
}

func (counters) Close() error { return nil }

func (r *Reading) reset() { *r = Reading{Samples: r.Samples[:0]} }
