package relay

// Stats counts since the link was made.
type Stats struct {
	Version                                          int // that this end sends, 0 before it is ready
	SentMessages, SentBytes, SentRecords             uint64
	ReceivedMessages, ReceivedBytes, ReceivedRecords uint64
	// Dropped messages found no room in the queue, or a broken link.
	// Spared ones were sent again while the first was on its way.
	Dropped, Spared uint64
	// Waits counts how often a message waited for the peer to be done with others,
	// Credits how often the peer was told so without a record.
	Waits, Credits uint64
	// CopiedOutBytes went from where messages had them into a ring; CopiedInBytes from
	// the ring to memory that the receiver keeps. See doc.go.
	CopiedOutBytes, CopiedInBytes uint64
	// Queued messages and bytes wait now; Unread records are on their way or not done
	// at the peer.
	Queued, QueuedBytes, Unread int
}

// Stats is for the link's own goroutine.
func (l *Link) Stats() Stats {
	s := l.stats
	s.Version = l.version
	s.Queued, s.QueuedBytes, s.Unread = l.out.queue.count, l.out.queue.bytes, int(l.out.sent-l.out.done)
	return s
}
