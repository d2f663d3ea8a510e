package server

import (
	"fmt"
	"time"

	"psrt/sched/chain"
)

// A firewall may let a server's beats pass and close the port where it listens for data:
// nobody takes it for dead then, and pushes wait for it for ever. The member before it
// says so, and the head of itself, when workers do not get in; whoever decides has the
// group go on without it. That loses nothing: the one before has all that it has, and of
// what was acknowledged everybody has all.
const (
	// linkPatience is that of ChainConfig.LinkPatience, in at least leastTries, each of which
	// may last linkWithin. Whoever gets no processor makes none, or none that the peer answers.
	linkPatience = 15 * time.Second
	leastTries   = 3
)

// unlinked is one to or from whom no connection for data can be made. The lane's.
type unlinked struct {
	node  chain.Node
	since time.Time // the first try that was answered, and failed
	tries int
	err   error  // of the last
	said  uint64 // the epoch in which it was
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

// lasts says whether it has been so for too long.
func (u *unlinked) lasts(patience time.Duration, now time.Time) bool {
	return u.tries >= leastTries && now.Sub(u.since) >= patience
}

// why is what a stall says of it, for people.
func (u *unlinked) why(now time.Time) string {
	if u.tries == 0 {
		return ""
	}
	return fmt.Sprintf("; server %d answers, and in %.0f s no connection for data was made to it, tried %d times: open its host's ports to this one (%v)",
		u.node.Server, now.Sub(u.since).Seconds(), u.tries, u.err)
}

// missLinks tells who decides of members that cannot be reached. A joiner that takes
// nothing the machine lets go.
func (c *chained) missLinks(now time.Time) {
	cfg := c.m.Config()
	patience := c.cfg.LinkPatience
	if patience == 0 {
		patience = linkPatience
	}
	say := func(u *unlinked) {
		if u.lasts(patience, now) && u.said != cfg.Epoch {
			u.said = cfg.Epoch
			c.cfg.OnReport(chain.Report{Kind: chain.Unreached, Epoch: cfg.Epoch, Nodes: []chain.Node{u.node}})
		}
	}
	if _, after, _, has := c.beside(); !has || c.peers.after.node != after || c.peerOf(after) != nil {
		c.peers.after = unlinked{}
	} else if cfg.Joiner == nil || cfg.Joiner.Node != after {
		say(&c.peers.after)
	}
	if !c.head || len(cfg.Chain) < 2 || c.l.anyOpen() {
		c.doors = unlinked{}
	} else {
		say(&c.doors)
	}
}

// anyOpen says whether some worker is connected.
func (l *lane) anyOpen() bool {
	for range l.open {
		return true
	}
	return false
}

// entered notes whether a worker that was let in could make its connection for data. Any
// goroutine.
func (c *chained) entered(attached bool, err error) {
	_ = c.l.do(commandTimeout, func() { c.doors.tried(c.cfg.Self, attached, err == nil, err, time.Now()) })
}
