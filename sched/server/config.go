package server

import (
	"fmt"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/clock"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/tree"
	"psrt/tiers"
	"psrt/tiers/table"
)

const (
	// Tickets is how many pulls of one session a lane remembers. More than
	// psmsg.Slots, because a worker pushes what it pulled a step or two ago.
	Tickets = 16
	// MaxStageBytes bounds one slot's staging area, used only where memory is
	// not mapped.
	MaxStageBytes = 4 << 30
)

// Async is the staleness of asynchronous training: no bound.
const Async = -1

// Config describes one server rank.
type Config struct {
	ID      int        // this server's ID in the map
	Map     *place.Map // must contain ID
	Host    *dial.Host // this process's transports
	Listen  string     // address of the control listener
	Workers int
	// Name is how people know a worker; nil: "worker 3". For words only.
	Name func(worker int) string
	// Staleness bounds how far clocks may be apart: 0 is BSP, Async is ASP.
	Staleness int
	// Modes are those of tables that have others, by number; psmsg.DenseLead is the
	// dense vector's.
	Modes map[uint32]clock.Mode
	// Retain has lanes of bsp keep what the newest step has changed, as it was before:
	// for who goes on for a worker that died in that step.
	Retain bool
	// Merges is the order in which BSP adds the workers' gradients: the top of
	// the reduction tree.
	Merges []tree.Merge
	Seed   uint64
	Tables []table.Spec
	Dense  DenseConfig
	// Tracked has tables note which rows change, for checkpoints of a running job
	// and for forgetting rows.
	Tracked bool
	// Storage has rows lie on disks; nil: all of them are in memory.
	Storage *Storage
	// Device has rows of coming batches lie on a device, over all others; nil: none.
	Device *Device
	// Rows opens a table's part in a lane; nil is as Storage says.
	Rows func(RowsConfig) (tiers.Rows, error)
	// Node is the NUMA node for the lanes' memory, -1 any. MaxBytes bounds the
	// tables of all lanes together, 0 = none.
	Node     int
	MaxBytes int64
	parts    int // Part has made MaxBytes one of so many
	FanIn    FanIn
	Trainers Trainers
	// Watch, every WatchEvery (0: half a second), who sends how much: for Stats,
	// and for the policy that grants.
	Watch      Watch
	WatchEvery time.Duration
	// Audit has lanes record what they do to their rows; nil: not.
	Audit *audit.Config
	// Note is told, once, what an operator wants to know and nobody has to act
	// on. May be nil.
	Note func(string)
	// Warn is told of failures that the server outlives. nil: Note is told.
	Warn func(string)
	// Second leaves out of the notes what another server of the same job says, too.
	Second bool
	// ReconnectFor is how long a worker whose connection broke may take to
	// come back before OnWorkerLost is called; 0 means 10 s.
	ReconnectFor time.Duration
	// OnWorkerLost is called once per worker that broke its connection without
	// leaving and did not come back. May be nil.
	OnWorkerLost func(worker int, cause error)
	// OnHungUp is called when a worker's connections were all closed by its end, without
	// leaving, and it has made none for hungUpFor: it may be dead. back says whether it has
	// one since. Called again when it hangs up again. May be nil.
	OnHungUp func(worker int, back func() bool)
	// Chain makes the server a replica of a group, nil: it is none.
	Chain *ChainConfig
	// Begin is called when the lanes run and nobody is let in yet, End when the
	// last connection has ended and the lanes still run. Either may be nil; Serve
	// returns its error.
	Begin, End func() error
}

// DenseConfig describes the dense vector. The zero value means none.
type DenseConfig struct {
	Ranges    []densemap.Range
	Optimizer table.Optimizer
	EMA       float32 // share of the new value in "ema" ranges
	// Init is the whole initial vector, the same on every server.
	Init []float32
}

func (c *Config) nameOf(worker int) string {
	if c.Name == nil {
		return fmt.Sprintf("worker %d", worker)
	}
	return c.Name(worker)
}

// members is what nameOf calls them all.
func (c *Config) members() string {
	if c.Name == nil || c.Workers < 1 || c.Name(c.Workers-1) == fmt.Sprintf("worker %d", c.Workers-1) {
		return "workers"
	}
	return "workers and dense ranks" // which have the last numbers
}

func (c *Config) validate() error {
	if c.Map == nil || c.Host == nil {
		return fmt.Errorf("server: Config.Map and Config.Host must be set")
	}
	if c.Workers < 1 {
		return fmt.Errorf("server: %d workers, want at least 1", c.Workers)
	}
	if c.Staleness < Async {
		return fmt.Errorf("server: staleness %d, want 0 (BSP), a positive bound (SSP) or %d (ASP)", c.Staleness, Async)
	}
	if err := c.validateChain(); err != nil {
		return err
	}
	if err := c.validateModes(); err != nil {
		return err
	}
	seen := map[uint32]string{}
	for i := range c.Tables {
		if err := c.Tables[i].Validate(); err != nil {
			return err
		}
		if other, ok := seen[c.Tables[i].ID]; ok {
			return fmt.Errorf("server: tables %q and %q have the same ID %d", other, c.Tables[i].Name, c.Tables[i].ID)
		}
		seen[c.Tables[i].ID] = c.Tables[i].Name
	}
	if n := densemap.Total(c.Dense.Ranges); n != len(c.Dense.Init) {
		return fmt.Errorf("server: dense ranges cover %d elements, Init has %d", n, len(c.Dense.Init))
	}
	return nil
}
