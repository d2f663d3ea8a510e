package server

import (
	"slices"

	"psrt/rdma"
)

// sender is one of a session's endpoints, for what is posted to it.
//
// A session whose bytes cross a link has two: an endpoint works off what is posted in
// order, so a fetch behind megabytes of values would wait until those have landed, and the
// worker sends what was fetched before it takes the next values. A large pull and a large
// push would then never move at the same time, each on a direction of its own.
type sender struct {
	ep      rdma.Endpoint
	backlog []rdma.WR // accepted by no Post yet, in order
}

// valued notes bytes of values that are on their way to a slot.
func (s *session) valued(slot, bytes int) {
	if s.twin() {
		s.values[slot] += bytes
		s.link.answer(bytes)
	}
}

// answer posts what ends an answer. One to a push goes by the endpoint of fetches, where the
// worker listens there, too, and values are on their way by the other: behind these it would
// come as late as they, and who pushes waits for it before he goes on.
func (s *session) answer(slot int, push bool, wr rdma.WR) {
	if push && s.beside && s.hasValues() {
		s.post(s.fetches, wr)
		return
	}
	if n := s.values[slot]; n > 0 {
		s.values[slot] = 0
		s.under = append(s.under, n)
		wr.Signaled = true
	}
	s.post(&s.answers, wr)
}

// hasValues says whether some are on their way.
func (s *session) hasValues() bool {
	return len(s.under) > 0 || slices.ContainsFunc(s.values[:], func(n int) bool { return n > 0 })
}

// arrived: the oldest answer with values is at the worker.
func (s *session) arrived() {
	if len(s.under) > 0 {
		s.link.answer(-s.under[0])
		s.under = s.under[:copy(s.under, s.under[1:])]
	}
}

// unanswered takes what has not arrived out of the link's books: it never will.
func (s *session) unanswered() {
	n := 0
	for _, b := range s.values {
		n += b
	}
	for _, b := range s.under {
		n += b
	}
	if n > 0 {
		s.link.answer(-n)
	}
}

// post sends wr, or keeps it where the endpoint does not take it yet. It reports whether
// the endpoint still works.
func (o *sender) post(wr rdma.WR) bool {
	o.backlog = append(o.backlog, wr)
	return len(o.backlog) > 1 || o.flush()
}

// flush retries the backlog.
func (o *sender) flush() bool {
	if len(o.backlog) == 0 {
		return true
	}
	n, err := o.ep.Post(o.backlog)
	o.backlog = o.backlog[:copy(o.backlog, o.backlog[n:])]
	return err == nil
}
