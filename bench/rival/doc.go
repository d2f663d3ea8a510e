// Package rival is a parameter server of the classic kind, to be compared with:
// one batched, deduplicated key-value message per server, serialised, copied
// into and out of message buffers, and a handler with a hash map.
//
// It owns its messages, its table and its stream over a transport of psrt. It
// must not know sched or tiers: what makes psrt fast shall not help it. It is
// built as well as that design allows: one allocation-free buffer per
// connection, keys and values copied in bulk, rows in slabs beside the map, and
// an optimizer loop without bounds checks.
//
// The life of one pull: Client.Pull copies keys behind a header into its
// message buffer and writes it to the stream; the server reads it into its
// buffer, looks every key up in the map, appends row after row to the reply
// buffer, and writes that; the client reads the reply and copies the values to
// where they are wanted. A push carries keys and gradients the one way and a
// bare header the other.
package rival
