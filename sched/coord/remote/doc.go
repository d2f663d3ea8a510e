// Package remote carries coord.Coordinator between processes: a Server in
// front of any Coordinator, and a Client that is one.
//
// It owns the messages and their framing. It must not know how a connection
// is made or who may have one: a net.Listener and a dial function are given
// (rdma/secure's, which let nobody in without the job's token).
//
// # The life of a call
//
//	client                              server
//	id, op, arguments, time left  --->  one call after the other per connection,
//	                                    each within the client's time left
//	id, result or error code      <---
//	watch id, events              <---  from one goroutine a watch
//	ping                          --->  every PingEvery; a silent client is
//	                                    dropped after SilentFor
//
// # Bounds
//
// A frame is a little-endian uint32 length and that many bytes of JSON, at
// most MaxFrame; long lists and event queues are sent in several. A server has
// at most MaxConns connections with MaxWatches watches each; every write has a
// deadline, so a peer that does not read is dropped. A client has at most
// MaxCalls calls under way.
//
// When a connection breaks, its calls fail with coord.ErrUnavailable and its
// watches end so; the next call dials again. Reads are repeated once by
// themselves, writes are not: they may have happened.
package remote
