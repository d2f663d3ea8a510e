package server

import (
	"fmt"
	"time"

	"psrt/sched/chain"
)

// unlinked is the member behind this one, to which no connection for data is made although
// it answers: a firewall may let beats pass and close the port where a server listens for
// data. Nobody takes such a member for dead: a busy machine looks the same for a while, and
// may be at either end. What waits for it says so. The lane's.
type unlinked struct {
	node  chain.Node
	since time.Time // the first try that was answered, and failed
	tries int
	err   error // of the last
}

// tried notes how a try has ended. answered: it came as far as that the two agreed on
// where the data is to go; linked: over that way, too.
func (u *unlinked) tried(node chain.Node, answered, linked bool, err error, now time.Time) {
	if linked || u.node != node {
		*u = unlinked{node: node}
	}
	if answered && !linked {
		if u.tries++; u.tries == 1 {
			u.since = now
		}
		u.err = err
	}
}

// why is what a stall says of it, for people.
func (u *unlinked) why(now time.Time) string {
	if u.tries == 0 {
		return ""
	}
	return fmt.Sprintf("; server %d answers, and in %.0f s no connection for data was made to it, tried %d times: see whether its host's ports are open to this one (%v)",
		u.node.Server, now.Sub(u.since).Seconds(), u.tries, u.err)
}

// notLinked is why of the member behind this one, while there is no link to it.
func (c *chained) notLinked(now time.Time) string {
	_, after, _, has := c.beside()
	if !has || c.peers.after.node != after || c.peerOf(after) != nil {
		return ""
	}
	return c.peers.after.why(now)
}
