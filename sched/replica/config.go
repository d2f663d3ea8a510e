package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/chain"
	"psrt/sched/coord"
	"psrt/sched/member"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// ErrSuperseded: another process has registered with this server's number later.
var ErrSuperseded = errors.New("replica: another process has this server's number")

// Group is one group's server. *server.Server with Config.Chain is one.
type Group interface {
	// Serve runs it until ctx ends; an error ends the process.
	Serve(ctx context.Context) error
	// Handle serves one incoming connection, a worker's or a chain's, to its end.
	Handle(ctx context.Context, in *dial.Incoming)
	// Adopt returns when the lane has adopted the chain. Epochs rise.
	Adopt(chain.Config) error
	// Lease says until when readers may be served in an epoch. It is called often,
	// and must not block.
	Lease(epoch uint64, until time.Time)
	// Fenced and Hold are chain.Machine's; an error ends the process.
	Fenced(epoch uint64) error
	Hold(epoch uint64) error
}

// Seat is this process's part in a group, for Config.Open.
type Seat struct {
	Group int
	Self  place.Node
	// Map is the job's as of when the seat was given: its slots and groups do not
	// change, its chains do.
	Map *place.Chains
	// Dial is where another server of the group listens; not ok: it is gone.
	Dial func(to place.Node) (addr string, ok bool)
	// OnReport takes what the group's machine reports. It does not block.
	OnReport func(chain.Report)
	// Unheard says in words for want of whose answer the group's lease is not longer, and
	// since when; "" where nobody's is. It does not block.
	Unheard func() string
	// StoreAway says for how long the coordinator could not be asked; 0: it can.
	StoreAway func() time.Duration
}

// Config of a Member.
type Config struct {
	// ID is the server's number. A process that takes a number over is another
	// server: it has none of the rows.
	ID     int
	Host   *dial.Host
	Listen string // address of the listener
	Coord  coord.Coordinator
	// Server is what the others place groups by: Lanes, Weight, Host and Rack. The
	// rest is filled in.
	Server place.Server
	// First is the job's first map, made by the lowest server once FirstServers have
	// registered. Where there is a map already neither counts.
	First        place.ChainsConfig
	FirstServers int
	// Open makes the server of a group. It is called in a goroutine of its own.
	Open func(Seat) (Group, error)
	// Describe answers trainers that learn the job from its servers; may be nil.
	Describe func(context.Context, *place.Chains) (*psmsg.DescribeReply, error)
	// Note is told what an operator wants to know; may be nil.
	Note   func(string)
	Times  member.Times
	Limits place.Limits
	// OpenWithin bounds Open, 2 min: a seat whose server is not there holds its group up.
	OpenWithin time.Duration
	// LeaseTTL is how long the registration outlives a process that ended without
	// a word, 10 s. Death is noticed by beats, sooner.
	LeaseTTL time.Duration
	// QueuePairs bounds those of workers, over all groups; 0: DefaultQueuePairs.
	QueuePairs int
}

// DefaultQueuePairs is what a device takes with ease; their rings are 1 GiB.
const DefaultQueuePairs = 16 << 10

const (
	defaultTTL        = 10 * time.Second
	defaultOpenWithin = 2 * time.Minute
)

func (c *Config) complete() error {
	switch {
	case c.ID < 0:
		return fmt.Errorf("replica: server number %d, want 0 or more", c.ID)
	case c.Host == nil || c.Coord == nil || c.Open == nil:
		return errors.New("replica: Config.Host, Config.Coord and Config.Open must be set")
	case c.FirstServers < 1:
		return fmt.Errorf("replica: the first map waits for %d servers, want at least 1", c.FirstServers)
	}
	if c.Server.Lanes < 1 {
		c.Server.Lanes = 1
	}
	if c.Server.Speaks == 0 {
		c.Server.Speaks = psmsg.Newest()
	}
	if c.Note == nil {
		c.Note = func(string) {}
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = defaultTTL
	}
	if c.QueuePairs == 0 {
		c.QueuePairs = DefaultQueuePairs
	}
	if c.OpenWithin == 0 {
		c.OpenWithin = defaultOpenWithin
	}
	c.Server.ID = c.ID
	return nil
}
