// Package fault wraps any rdma.Domain and fails or delays its requests by
// script, so that what stands above a transport can be tested against the
// transport itself.
//
// It owns the rules and the bookkeeping of requests that a rule caught. It
// must not know which transport it wraps: it uses nothing but the interface.
//
// The life of a request that a rule fails: Post replaces it by an empty
// write (Fail: the peer never sees it) or lets it go (Lose: the peer executes
// it, only the answer is lost), in both cases signaled; it keeps everything
// posted behind it. When that completion is polled, all that was posted
// before has completed, as on a real queue pair. The completion is rewritten
// into the failure, what was kept is flushed, and the wrapped endpoint is
// closed, by which the peer learns of it.
//
// A delayed request and those behind it wait in the wrapper, at most
// SendDepth of them; they go on from a timer or, where the wrapped endpoint is
// full, from the next Poll. Requests that are not caught cost one lock and no
// allocation. Locks in order: endpoint.mu, queue.mu, Script.mu.
package fault
