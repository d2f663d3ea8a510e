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
//	chunk   B x 10 us, whole 4 KiB, at least LeastChunk, at most 128 KiB
//	k       ceil(1 + RTT x B / chunk)
//	window  k x chunk: a grant is made only if the bytes granted and not yet
//	        landed, of all workers together, stay within it
//
// B is the highest delivery rate of the recent past. RTT is the least time, from
// a grant of a chunk to its last byte, when nothing else is on its way: so long
// a chunk holds its place in the window. RTT x B keeps the link busy, the chunk
// more covers that bytes come and go by the chunk; all beyond would only wait
// in the switch. So the queue is a chunk or two, however many workers there are.
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
// Where this side's answers (Answers) are on their way over the same link, grants wait
// behind them: the window is as much larger, by BurstBytes at most, or the way in would
// rest while the way out is full.
//
// Grants are spread: after a pause BurstBytes at once, then a quarter more than
// B. So Grants may hold one back that the window allows, until Deadline.
//
// # Workers that go silent
//
// A worker that owes bytes and lands none for one and a half times what a full
// window takes is late: it gets no grants, and its place in the window is lent
// to others, a window's worth in all. One silent for SilenceNanos is set aside:
// nobody waits for it. The next byte of either counts the rest that it owes
// back in. One that was aside is on trial: all workers on trial together may
// owe one chunk, until they land one in time. Bytes counted back in, and
// estimates that fall, may leave more outstanding than the window: then nothing
// is granted until it has drained.
//
// A belief in too short a round trip would make every worker late for ever, and the window too
// small for any sample to correct it. So the first grant on an empty link is a measurement as long
// as the round trip is a guess, after a worker was set aside, and while one is on trial; and late
// workers do not count as a pause, after which drains wait for a full window again.
//
// So on their way are at most two windows, and what workers owe that have been
// silent for SilenceNanos: at most a window each, since they get no more.
//
// # One Policy per link
//
// The window belongs to the bottleneck: one Policy for all lanes behind a
// device. Two on one link would each take the other's queue for its round trip,
// and both would grow by it. Where lanes must share nothing, each is told its
// part of the link by Measured.
package fanin
