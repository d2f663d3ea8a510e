package server

import (
	"cmp"

	"psrt/sched/psmsg"
)

// own is the newest version of the wire that this server speaks.
func (c *chained) own() int { return cmp.Or(c.cfg.Speak, psmsg.Newest()) }

// speak notes what all of a chain speak, 0: it is not said, and returns whether that is
// another version than before.
func (c *chained) speak(all int) (other bool) {
	v := int64(c.own())
	if all > 0 {
		v = min(v, int64(all))
	}
	return c.speaks.Swap(v) != v
}

// keepsTo is whether a session is of the version that a hello would be answered with now.
// Since its own an older member may have come, or the last older one gone: that ended the
// sessions that the lane knew, and this one was not among them yet.
func (c *chained) keepsTo(ses *session) bool {
	return ses.version == min(ses.newest, int(c.speaks.Load()))
}

// spoken is the version that a connection is of. A worker's pushes go down the chain as
// they came, so the oldest of its members says what a worker may use; servers agree on
// what is between them by themselves (sched/relay), and what only reads ends here.
func (s *Server) spoken(hello *psmsg.Hello) (int, error) {
	switch {
	case s.cfg.Chain == nil:
		return hello.Spoken()
	case hello.Link != nil || hello.Reads:
		return hello.SpokenUpTo(s.lanes[0].chain.own())
	}
	return hello.SpokenUpTo(int(s.lanes[0].chain.speaks.Load()))
}
