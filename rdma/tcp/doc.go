// Package tcp is the transport for any two hosts with a route between them:
// the verbs' one-sided operations emulated over TCP connections, so that bytes
// land from the socket straight in the memory they are meant for.
//
// It owns sockets, the frames on them and who may touch which region. It must
// not know why bytes move, nor how endpoint addresses reached the other side.
//
// An endpoint pair has two links per stream, each a connection that carries
// requests one way and replies the other way:
//
//	endpoint A                                   endpoint B
//	requester  -- requests ------------------>   responder      link 0, A asks
//	           <-- acks, naks, read data -----
//	responder  <-- requests ------------------   requester      link 0, B asks
//	           -- acks, naks, read data ------>
//
// Two one-way links instead of one shared connection: a responder may stop
// reading (no receive posted, a reply that does not fit the socket) without
// ever holding up the replies its own side waits for, so nothing can deadlock
// and TCP's own flow control is the back-pressure.
//
// Whoever polls a queue moves the bytes of its endpoints. Their sockets are in
// an epoll of the queue's own, outside the runtime's poller; Poll and Wait look
// there, and read, execute, answer and complete until nothing is left
// (engine.go). Wait looks for Caps.SpinMicros, longer or not at all as package
// patience has learnt, yielding the core in between, then blocks (wait.go).
// While the polling goroutine is not in Wait, arrivals wake a keeper that does
// the same in its place (keeper.go, sleeper.go), so that one-sided requests are
// served whatever their target's owner is busy with. Who computes calls Take, which
// leaves the bytes to the keeper while that one gets a core. Nothing in the engine
// waits: a link that cannot go on remembers its stage (answer.go), and what lets
// it go on (bytes, room, a receive, its turn) resumes it.
//
// The life of one write with immediate:
//
//  1. Post checks it against the regions, gives it a sequence number and a
//     slot, and writes headers and payloads of all that is queued in one writev
//     without blocking. What does not fit the socket goes when epoll says that
//     there is room. A few small requests close behind others in flight are
//     held until the next Poll or Wait, or until those are done: they leave
//     together.
//  2. The responder reads the header, finds the region by its key, checks range
//     and right, and reads the payload into the region itself (readv: payload
//     and next header in one call).
//  3. When every byte has landed and every earlier request is done, it takes a
//     posted receive (which may come at most the requester's OpTimeout later)
//     and puts the completion with the immediate in its queue.
//  4. When it has nothing else to do, before its owner gets something to do,
//     and at least every ackRequests requests or ackBytes bytes, it sends one
//     cumulative acknowledgement, unless a request of its own has taken that
//     along; the requester completes every slot up to it: placed at the peer. Reads and atomics are acknowledged by
//     their answers, with all before them.
//
// Small payloads (up to inlineMax bytes of a request) ride with their header;
// headers of larger ones are padded to frameUnit bytes, those of replies to
// replyUnit, so a reader may always read as many at a frame boundary and never
// takes bulk bytes into a buffer.
//
// A message of stripeMin bytes or more is cut into one part per stream. A
// responder starts no request before all earlier ones are done, whatever
// stream they are on; the lowest unfinished request is at the head of every
// stream that carries it, so this wait cannot deadlock either.
//
// A link that leaves the host without TLS has a CRC-32C of each payload in the frame's
// header (hello.go says which links). The sender sums before it sends, in frames of at
// most sumChunk bytes. The reader sums what has landed, and ends the connection where the
// sums differ, before the request is done. So the memory that peers read must not change
// meanwhile.
//
// Links that carry only small messages go in front of others in the host's queue
// (urgent.go).
//
// Trust: links are authenticated by a random nonce per endpoint that travels
// in Address, over the set-up connection. Every header field is checked before
// use. Links that leave the host are under
// TLS as well (tls.go), which the engine does itself (sealed.go). Links of a Carrier are
// no sockets of the engine's: a bridge stands between (bridge.go).
//
// Locks, in this order: engine.role, endpoint.mu, endpoint.recvMu, queue.mu or
// answerLink.mu, port.mu; engine.heldMu, engine.duty, ports.mu, TLS's own and sealed.mu last. Domain.placing is
// held only around one non-blocking system call or copy on region memory:
// Region.Close and a failing endpoint take it for writing, and after that
// nobody touches the memory any more.
package tcp
