// Package fanin is what a receiver grants when many workers want to send to it
// at once: a pure state machine over announced transfers.
//
// It owns the order and the amount of grants, and the two estimates they rest
// on. It must not know sockets, queue pairs, memory or clocks: the time comes
// in as nanoseconds of any monotonic clock, grants go out as values, and the
// lane that runs it moves the bytes.
//
// # The rule
//
//	chunk   B x 10 us, whole 4 KiB, at least 4 KiB, at most 128 KiB
//	k       ceil(1 + RTT x B / chunk)
//	window  k x chunk: a grant is made only if the bytes granted and not yet
//	        landed, of all workers together, stay within it
//
// B is the highest delivery rate and RTT the lowest time from a grant to its
// bytes of the recent past. RTT x B keeps the link busy, the chunk more hides
// that bytes are granted by the chunk; all beyond would only wait in the
// switch. So the queue is about a chunk, however many workers there are.
//
// # The life of a transfer
//
// A worker with more than the eager limit to send sends its size. Announce
// files it. Grants gives out offsets and lengths: pulls before pushes (but a
// push after PullRun bytes of pulls, so none starves), workers in turn by
// deficit round robin over bytes, a worker's transfers of a kind one after the
// other. The worker writes exactly what was granted; Arrived makes room for the next
// grant. The last byte ends the transfer. Cancel gives up what is not granted
// yet; Leave forgets a worker whose connection is gone.
//
// # Workers that go silent
//
// A worker that owes bytes and lands none for Deadline is set aside: what it
// owes no longer holds the window, and it gets no grants. Its next byte counts
// the rest it owes back in, and it is on trial: all workers on trial together
// may owe one chunk, until it lands one in time. Bytes counted back in, and
// estimates that fall, may leave more outstanding than the window: then
// nothing is granted until it has drained. Nothing else does.
//
// # Two windows on one link
//
// The window belongs to what is the bottleneck: one Policy per link (device),
// shared by its lanes, is the rule as proved. A Policy per lane is as good if
// each is given its part of the link by Config.MaxRate.
package fanin
