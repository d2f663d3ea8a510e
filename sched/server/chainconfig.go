package server

import (
	"fmt"
	"time"

	"psrt/sched/chain"
	"psrt/sched/psmsg"
	"psrt/sched/relay"
)

// ChainConfig makes a server a replica of one group: its one lane is the group's, and
// Config.ID is the group's number. It does not listen; connections come by Handle.
type ChainConfig struct {
	Self    chain.Node
	Group   int
	Options chain.Options
	// Speak is the newest version of the wire that this server speaks; 0: this
	// program's. What the others of the chain speak bounds what its workers do.
	Speak int
	// Dial says where another member's process listens; not ok: unknown as yet.
	Dial func(to chain.Node) (addr string, ok bool)
	// OnReport is told what has to be done about the group, in the lane's goroutine: it
	// must not wait.
	OnReport func(chain.Report)
	// Unheard says in words whose answer the group's lease waits for; nil: nobody knows.
	// It does not block.
	Unheard func() string
	// StoreAway says for how long the store of the shard map could not be asked; 0: it can.
	// nil: nobody knows. It does not block.
	StoreAway func() time.Duration
	// Send carries messages to other members, for tests; they come back by Deliver. nil:
	// over links of the lane's own.
	Send func(chain.Message)
}

// ChainStats is what a replica has and does.
type ChainStats = psmsg.ChainStats

func (c *Config) validateChain() error {
	k := c.Chain
	if k == nil {
		return nil
	}
	if c.Map.Index(c.ID) < 0 || c.Map.LanesOf(c.ID) != 1 {
		return fmt.Errorf("server: group %d must be a server of one lane in Config.Map", c.ID)
	}
	if k.OnReport == nil || k.Dial == nil && k.Send == nil {
		return fmt.Errorf("server: group %d: ChainConfig.OnReport and Dial must be set", c.ID)
	}
	return nil
}

// linkDepth is the room in the lane's queues for links to other members.
func (c *Config) linkDepth() int {
	if c.Chain == nil {
		return 0
	}
	return 2 * maxPeers * relay.Options{}.QueueDepth()
}

// Adopt takes the group's chain of a newer epoch, and returns when the lane has. A
// lane that is at something long (a model being loaded) keeps its caller waiting.
func (s *Server) Adopt(cfg chain.Config) error {
	c := s.lanes[0].chain
	served := c.served.Load()
	if err := c.l.do(wholeTimeout, func() { c.adopt(cfg) }); err != nil {
		return err
	}
	switch {
	case !c.served.Load():
		s.waitForNobody()
	case s.vacated && !served:
		s.expect()
	}
	return nil
}

// Lease lets the group's head of an epoch serve readers until a moment. It may be
// called from any goroutine and does not wait.
func (s *Server) Lease(epoch uint64, until time.Time) { s.lanes[0].chain.setLease(epoch, until) }

// Fenced says that none of the nodes that a Fence has named serves readers any more.
func (s *Server) Fenced(epoch uint64) error {
	c := s.lanes[0].chain
	return c.l.do(wholeTimeout, func() { c.m.Fenced(epoch) })
}

// Hold has the head order nothing more in this epoch.
func (s *Server) Hold(epoch uint64) error {
	c := s.lanes[0].chain
	return c.l.do(wholeTimeout, func() {
		c.endFlow() // nothing new may follow it, and what is under way is to end
		c.m.Hold(epoch)
	})
}

// Deliver takes a message that another member's ChainConfig.Send was given, from any
// goroutine. Where too many wait it is lost.
func (s *Server) Deliver(m chain.Message) { s.lanes[0].chain.deliver(m) }

// ChainStats is as the lane was a moment ago; it does not wait for it.
func (s *Server) ChainStats() ChainStats { return *s.lanes[0].chain.stats.Load() }

// moved is what a client is told that asks a member that is not the head.
func (c *chained) moved() error {
	return &psmsg.Moved{Group: c.cfg.Group, Epoch: c.epoch.Load(), Server: c.cfg.Self.Server}
}
