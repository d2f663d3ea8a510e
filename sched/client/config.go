package client

import (
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/compress"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/stall"
)

// Config describes one worker's client.
type Config struct {
	Worker int // 0..workers-1, the rank in the clocks
	// Any says that Worker is only a wish, at servers whose workers come and go: the
	// first server gives a number.
	Any bool
	// Looks says that this worker takes no steps: no barrier waits for it.
	Looks bool
	// Generation counts the processes that have had the worker's number, from 1; 0 does
	// not say. One above 1 goes on for those before it; see GoOn.
	Generation int
	Map        *place.Map // who owns what; server addresses included
	// Chains is the first map of a job with replicas, instead of Map: later ones are
	// learnt from the servers. Every group is then a server to the caller.
	Chains *place.Chains
	// Read is where pulls go then. A stepped client's go to the heads until BeginReaders.
	Read Read
	// Hot has it keep values of rows that are pulled often, which is not for bsp: a pull
	// of a step may then be answered with what another, so many steps before, was.
	Hot  Hot
	Host *dial.Host
	// Timeout bounds every wait for a server, reconnecting included; 0 means
	// two minutes. In BSP it also bounds how far workers may drift apart.
	Timeout time.Duration
	// Node is the NUMA node of this worker's registered memory, -1 any.
	Node int
	// Compress is how gradients travel to servers that know of it. A stepped client's
	// go as they are.
	Compress compress.Choice
	// Even has merged steps be those from one multiple of Compress.Merge to the next (of auto,
	// of what Merge said), and where rows are kept each lane get as many pushes in each step, so
	// that who goes on for this worker knows both.
	Even bool
	// Latencies is where the client counts how long its calls take. May be nil.
	Latencies *Latencies
	// Audit begins this client's record; nil: none is wanted.
	Audit func(worker int, client uint64, m *place.Map) (*audit.Worker, error)
	// Shared: control calls are made beside the goroutine that pulls and pushes.
	Shared bool
	// Restarts: a job with replicas that was started again is gone on with. What the one before acknowledged is taken for
	// loaded, as from a server without replicas.
	Restarts bool
	// Stepped: the owner never calls what waits for servers, but Step; see step.go.
	Stepped bool
	// Turn runs f, by any goroutine, while nobody uses a stepped client that reads from
	// any member; false: it is closed, and f did not run.
	Turn func(f func()) bool
	// Lost is called, by any goroutine, when a stepped client of a job with replicas
	// has lost a connection: Broken has it. May be nil.
	Lost func()
	// Stall is told what this client waits for. May be nil.
	Stall *stall.Watch
	// protocol is the only one that the client speaks, for tests; 0: see psmsg.
	protocol int
}

// queueDepth is room for what all endpoints may post, some of those that were given up, and
// those of groups' next heads.
func (c *Config) queueDepth() int {
	depth := c.Map.Lanes() * c.lanesEach() * psmsg.Slots * 8
	if c.Chains != nil {
		depth += min(c.Map.Lanes(), aheadsMost) * psmsg.Slots * (2*requestWRs + 1)
	}
	return depth
}

// lanesEach is how many connections a lane may have at a time.
func (c *Config) lanesEach() int {
	if c.Chains != nil && c.Read == ReadAny {
		return 2
	}
	return 1
}

func (c *Config) validate() error {
	if c.Chains != nil && c.Map == nil {
		c.Map = c.Chains.GroupMap()
	}
	if c.Map == nil || c.Host == nil {
		return fmt.Errorf("client: Config.Map or Chains and Config.Host must be set")
	}
	if c.Generation < 0 || c.Generation > psmsg.MaxGeneration {
		return fmt.Errorf("client: generation %d, want 0 to %d", c.Generation, psmsg.MaxGeneration)
	}
	if err := c.Compress.Check(); err != nil {
		return err
	}
	if c.Stepped && c.Read == ReadAny && c.Turn == nil {
		return fmt.Errorf("client: a stepped client that reads from any member needs Config.Turn")
	}
	if c.Worker < 0 {
		return fmt.Errorf("client: worker %d, want 0 or more", c.Worker)
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	return nil
}
