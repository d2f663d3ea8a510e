package fan

import (
	"fmt"
	"slices"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/sched/psmsg"
	"psrt/sched/server"
)

// Links.
const (
	LinkVeth = cable.Veth // namespaces of this run's own, and a rate
	LinkNone = cable.None // loopback, or the devices' own wire
)

// ErrNoLink: this machine, or this user, cannot have a link of its own.
var ErrNoLink = cable.ErrNoLink

// modes are the ways in which a server fetches what workers push.
var modes = map[string]server.FanIn{"granted": server.FanInGranted, "blast": server.FanInBlast}

// Config of one run.
type Config struct {
	Transport string   // tcp or verbs
	Modes     []string // granted, blast: which take turns
	Workers   []int    // how many push, in this order
	Bytes     int      // of a push
	Depth     int      // pushes that a worker has on their way
	Duration  time.Duration
	Rounds    int // of all points; what is reported is the middle one
	Seed      uint64

	Link       string
	RateBits   int64         // per second, towards the server
	QueueBytes int           // that the switch's port to the server holds
	Delay      time.Duration // added on the way from the server
	Congestion string        // TCP's congestion control; "" as the system's

	// With verbs: the server's device and the workers', and how they are used.
	ServerDevice, WorkerDevice string
	Port, GIDIndex             int // 0: the first active; -1: found
	SpinMicros                 int

	// Part is the program again: with a role as its last argument it must call
	// ServePart.
	Part child.Command
}

const (
	// MaxWorkers in one process.
	MaxWorkers   = 256
	maxRounds    = 100
	minBytes     = 64 << 10
	maxBytes     = 64 << 20
	maxDuration  = time.Minute
	minRateBits  = 1_000_000
	maxRateBits  = 100_000_000_000
	minQueue     = 16 << 10
	maxQueue     = 1 << 30
	maxDelay     = time.Second
	maxMemory    = 4 << 30
	linkTime     = 500 * time.Millisecond // the link itself is measured so long,
	linkBefore   = 2                      // so often at first, and once for each number of workers
	unloadedTime = 400 * time.Millisecond // the probe alone likewise
	// windowPushes is how many pushes of each worker a window holds, so that
	// shares can be told apart, unless that takes longer than maxWindow.
	windowPushes = 6
	maxWindow    = 10 * time.Second
	// patience bounds every wait for the server; of that is the transport's own
	// for one request.
	patience        = 30 * time.Second
	transportPasses = 4 * time.Second
)

// Check refuses what cannot be run.
func (c *Config) Check() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("fan-in: "+format, args...) }
	switch {
	case c.Transport != "tcp" && c.Transport != "verbs":
		return bad("transport %q, want tcp or verbs: over shm nothing passes a link", c.Transport)
	case len(c.Modes) == 0:
		return bad("no mode, want granted, blast or both")
	case len(c.Workers) == 0:
		return bad("no number of workers, want at least one, such as 1,8,64")
	case c.Bytes < minBytes || c.Bytes > maxBytes || c.Bytes%4 != 0:
		return bad("pushes of %d bytes, want %d to %d, a multiple of 4", c.Bytes, minBytes, maxBytes)
	case c.Depth < 1 || c.Depth > psmsg.Slots:
		return bad("%d pushes on their way, want 1 to %d", c.Depth, psmsg.Slots)
	case c.Duration <= 0 || c.Duration > maxDuration:
		return bad("%v for each point, want more than 0 and at most %v", c.Duration, maxDuration)
	case c.Rounds < 1 || c.Rounds > maxRounds:
		return bad("%d rounds, want 1 to %d", c.Rounds, maxRounds)
	case c.Link != LinkVeth && c.Link != LinkNone:
		return bad("link %q, want %s or %s", c.Link, LinkVeth, LinkNone)
	case c.Link == LinkVeth && c.Transport != "tcp":
		return bad("the link %s carries tcp only; over %s use --link %s, the wire of its devices", LinkVeth, c.Transport, LinkNone)
	}
	seen := map[string]bool{}
	for _, m := range c.Modes {
		if _, ok := modes[m]; !ok || seen[m] {
			return bad("mode %q, want granted and blast, each once", m)
		}
		seen[m] = true
	}
	for i, n := range c.Workers {
		if n < 1 || n > MaxWorkers {
			return bad("%d workers, want 1 to %d", n, MaxWorkers)
		}
		if slices.Contains(c.Workers[:i], n) {
			return bad("%d workers twice", n)
		}
	}
	if need := c.memory(); need > maxMemory {
		return bad("%d workers with %d pushes of %d bytes take %d MiB of memory, at most %d are allowed: fewer workers, or a smaller push",
			c.most(), c.Depth, c.Bytes, need>>20, int64(maxMemory)>>20)
	}
	if c.Link == LinkVeth {
		return c.checkLink()
	}
	return nil
}

func (c *Config) checkLink() error {
	bad := func(format string, args ...any) error { return fmt.Errorf("fan-in: "+format, args...) }
	switch {
	case c.RateBits < minRateBits || c.RateBits > maxRateBits:
		return bad("a link of %d bit/s, want %d to %d", c.RateBits, minRateBits, int64(maxRateBits))
	case c.QueueBytes < minQueue || c.QueueBytes > maxQueue:
		return bad("a queue of %d bytes, want %d to %d", c.QueueBytes, minQueue, maxQueue)
	case c.Delay < 0 || c.Delay > maxDelay:
		return bad("a delay of %v, want 0 to %v", c.Delay, maxDelay)
	}
	all := time.Duration(float64(c.most()*c.Depth*c.Bytes) * 8 / float64(c.RateBits) * float64(time.Second))
	if all > transportPasses {
		return bad("all that %d workers have on their way takes %v at %d bit/s, more than the %v after which a transport gives a request up: fewer workers, a smaller push, less depth or a faster link",
			c.most(), all.Round(time.Millisecond), c.RateBits, transportPasses)
	}
	return nil
}

func (c *Config) most() int { return slices.Max(c.Workers) }

// memory is what the workers' vectors, values and gradients, and the server's
// copies of pushes take, in bytes, for each mode.
func (c *Config) memory() int64 {
	return int64(len(c.Modes)) * int64(c.most()) * int64(c.Bytes) * int64(2+c.Depth)
}

func (c *Config) floats() int { return c.Bytes / 4 }
