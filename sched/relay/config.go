package relay

import (
	"fmt"

	"psrt/rdma"
	"psrt/sched/chain"
)

// Newest is the newest version of records and messages that this program speaks,
// Oldest the oldest: that of the release before, so that servers can be taken from one
// release to the next one by one. Both ends send in the newest that both know; each
// record says which that is. A version that changes what is in them adds its layout
// beside the one before.
//
// 1: the first.
const (
	Newest = 1
	Oldest = 1
)

// Method is the control call by which the end that dialled gives its Offer and gets
// the other's.
const Method = "relay"

// Config is one end of a link.
type Config struct {
	Group      int
	Self, Peer chain.Node
	// Dials: this end is the predecessor, or the tail that feeds a joiner. Ops go in
	// its direction, so it gets the large ring.
	Dials bool
	// ID is in the upper half of the ID of every work request and receive; the lower
	// half is the link's.
	ID uint32
	// Node is the NUMA node of the rings, -1 any.
	Node    int
	Options Options
	// On is given what arrives, within Complete. The message, its Bytes and those of
	// an item of rows are lent until On returns; any other item is the receiver's to
	// keep. On may call Send and Flush.
	On func(*chain.Message)
}

// Options bound one link; zero values get defaults. Both ends use the smaller of
// what they were given.
type Options struct {
	RingBytes int // that the end which dialled may have on its way, 2 MiB
	BackBytes int // that the other end may, 256 KiB
	Depth     int // records on their way, 128

	// Speak is the newest version that this end speaks, Newest.
	Speak int

	QueueMessages   int // that wait for room, 1024
	QueueBytes      int // likewise, 16 MiB; one message may be larger
	MaxMessageBytes int // of one message, 1 GiB
}

const (
	minRing    = 16 << 10
	maxRing    = 1 << 30 // the immediate holds places up to it
	minDepth   = 16
	maxDepth   = 4096
	maxMessage = 4 << 30
	place      = 64 // records begin at multiples of it
)

func (o Options) complete() (Options, error) {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Speak, Newest)
	set(&o.RingBytes, 2<<20)
	set(&o.BackBytes, 256<<10)
	set(&o.Depth, 128)
	set(&o.QueueMessages, 1024)
	set(&o.QueueBytes, 16<<20)
	set(&o.MaxMessageBytes, 1<<30)
	for _, x := range []struct {
		name       string
		v, min, to int
	}{
		{"Speak", o.Speak, Oldest, 255},
		{"RingBytes", o.RingBytes, minRing, maxRing},
		{"BackBytes", o.BackBytes, minRing, maxRing},
		{"Depth", o.Depth, minDepth, maxDepth},
		{"QueueMessages", o.QueueMessages, 1, 1 << 20},
		{"QueueBytes", o.QueueBytes, 1, maxRing},
		{"MaxMessageBytes", o.MaxMessageBytes, minRing, maxMessage},
	} {
		if x.v < x.min || x.v > x.to {
			return o, fmt.Errorf("relay: Options.%s is %d, want %d to %d", x.name, x.v, x.min, x.to)
		}
	}
	o.RingBytes, o.BackBytes = o.RingBytes&^(4*place-1), o.BackBytes&^(4*place-1)
	return o, nil
}

// sendDepth and recvDepth: records, those that only tell of credits, and what is
// posted again a quarter at a time. A receiver may tell of each record by itself.
func (o *Options) sendDepth() int { return o.Depth + o.Depth/4 + 16 }
func (o *Options) recvDepth() int { return 2*o.Depth + o.Depth/4 + 16 }

// QueueDepth is the room that a link takes in its lane's queues.
func (o Options) QueueDepth() int {
	if c, err := o.complete(); err == nil {
		o = c
	}
	return o.sendDepth() + o.recvDepth()
}

// Offer is what an end tells the other before anything is sent; it travels as JSON
// over the control connection.
type Offer struct {
	// Version is the oldest that this end speaks, Newest the newest; 0, as programs say
	// it that know one: the same.
	Version int `json:"version"`
	Newest  int `json:"newest,omitempty"`
	// Ring is where the other end may write, SendBytes how much of the other's ring
	// this end can use, Depth how many records it takes and sends, MaxMessageBytes
	// the longest message that it takes.
	Ring            rdma.RemoteRange `json:"ring"`
	SendBytes       int              `json:"send_bytes"`
	Depth           int              `json:"depth"`
	MaxMessageBytes int              `json:"max_message_bytes"`
}

// spoken is the newest version that both ends know, of which this one speaks up to
// newest.
func (o *Offer) spoken(newest int) int { return min(max(o.Version, o.Newest), newest) }

func (o *Offer) check(newest int) error {
	switch v := o.spoken(newest); {
	case v < Oldest || v < o.Version:
		return fmt.Errorf("%w: it speaks versions %d to %d, this program %d to %d: take servers from one release to the next, and leave none out", ErrProtocol, o.Version, max(o.Version, o.Newest), Oldest, newest)
	case o.Ring.Len < minRing || o.Ring.Len > maxRing:
		return fmt.Errorf("%w: a ring of %d bytes, want %d to %d", ErrProtocol, o.Ring.Len, minRing, maxRing)
	case o.SendBytes < minRing || o.SendBytes > maxRing:
		return fmt.Errorf("%w: %d bytes to send from, want %d to %d", ErrProtocol, o.SendBytes, minRing, maxRing)
	case o.Depth < minDepth || o.Depth > maxDepth:
		return fmt.Errorf("%w: a depth of %d, want %d to %d", ErrProtocol, o.Depth, minDepth, maxDepth)
	case o.MaxMessageBytes < minRing || o.MaxMessageBytes > maxMessage:
		return fmt.Errorf("%w: messages of up to %d bytes, want %d to %d", ErrProtocol, o.MaxMessageBytes, minRing, maxMessage)
	}
	return nil
}
