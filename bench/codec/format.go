package codec

import "math/rand/v2"

// format is one kind of message. Its messages go to the ring's slots in turn,
// message i to slot i modulo their number.
type format interface {
	// encode writes the first n messages, over and over the ring.
	encode(r *ring, n int) error
	// decode reads n messages and adds up something of each that depends on
	// all its fields that matter.
	decode(r *ring, n int) (sum uint64, err error)
	// want is what the message in a slot adds to decode's sum.
	want(slot int) uint64
	// equal says whether a slot holds its message, field by field.
	equal(r *ring, slot int) bool
}

// kind is a format with its name and shape.
type kind struct {
	name                string
	slots, stride, size int
	keys                int    // of a message, for keys a second; 0 if it has none
	decodes             string // what the decoding row is called
	f                   format
}

func kinds(c *Config) []kind {
	r := rand.New(rand.NewPCG(c.Seed, 0))
	return []kind{
		newRequests(r, "request", nothing, 0),
		newRequests(r, "pull with keys", keys, c.Keys),
		newRequests(r, "push by ticket", gradients, ticketRows),
		newReplies(r),
		newHeaders(r, "frame header", 16),
		newHeaders(r, "frame header, extended", 64),
		newFrames(r),
	}
}
