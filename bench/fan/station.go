package fan

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/bench/report"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// ServePart is the body of another process of a run, which Config.Part starts.
func ServePart(role string, in io.Reader, out io.Writer) error {
	return cable.Serve(map[string]cable.Part{cable.Station: serveStation, cable.Server: serveServer, cable.Switch: serveSwitch}, role, in, out)
}

// stationSays is one of these at a time; the last has Done or Err.
type stationSays struct {
	Err        string
	Transport  string
	Congestion string
	Point      *Point
	Done       bool
}

// station is the workers' process.
type station struct {
	cfg       *Config
	token     []byte
	server    *child.Child
	network   *child.Child // the switch; nil without
	addresses serverSays
	crowds    []*crowd
	say       func(stationSays) error
	reads     *readEnd // with verbs
	best      float64  // rate of the link itself, bytes/s
}

func serveStation(ctx context.Context, from *json.Decoder, to *json.Encoder) error {
	var cfg Config
	if err := from.Decode(&cfg); err != nil {
		return fmt.Errorf("fan-in: no set-up on standard input: %w", err)
	}
	s := &station{cfg: &cfg, token: make([]byte, 32), say: func(m stationSays) error { return to.Encode(m) }}
	_, _ = rand.Read(s.token)
	last := stationSays{Done: true}
	if err := s.run(ctx); err != nil {
		last = stationSays{Err: err.Error()}
	}
	return to.Encode(last)
}

func (s *station) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unshare := cable.Inside(s.cfg.Link)
	if s.server, err = cable.Start(ctx, s.cfg.Part, cable.Server, unshare); err != nil {
		return err
	}
	defer s.server.Close(cancel)
	if s.cfg.Link == LinkVeth {
		if s.network, err = cable.Start(ctx, s.cfg.Part, cable.Switch, unshare); err != nil {
			return err
		}
		defer s.network.Close(cancel)
		if _, err := s.drops(switchOrder{*s.cfg, os.Getpid(), s.server.PID()}); err != nil {
			return err
		}
		if err := end(ctx, workerAddress, workerGateway, s.cfg.Congestion); err != nil {
			return err
		}
	}
	if s.addresses, err = s.ask(serverOrder{*s.cfg, s.token}); err != nil {
		return err
	}
	defer func() {
		for _, c := range s.crowds {
			err = errors.Join(err, c.close())
		}
	}()
	for _, mode := range s.cfg.Modes {
		c := &crowd{cfg: s.cfg, mode: mode}
		s.crowds = append(s.crowds, c)
		if err := c.open(ctx, s.token, s.addresses.Addresses[mode]); err != nil {
			return err
		}
	}
	if s.cfg.Transport == "verbs" {
		s.reads = &readEnd{}
		defer func() { err = errors.Join(err, s.reads.close()) }()
		if err := s.reads.lend(ctx, s.crowds[0].host, s.addresses.Reads); err != nil {
			return err
		}
	}
	for range linkBefore {
		if _, err := s.link(); err != nil {
			return err
		}
	}
	if err := s.say(stationSays{Transport: s.crowds[0].probe.client.Transport(0), Congestion: cable.Congestion()}); err != nil {
		return err
	}
	for round := range s.cfg.Rounds {
		if err := s.round(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// round measures all points, each number of workers in all modes, which take
// turns at being first.
func (s *station) round(ctx context.Context, round int) error {
	for _, c := range s.crowds {
		c.alone = 0
	}
	for i, n := range s.cfg.Workers {
		link, err := s.link()
		if err != nil {
			return err
		}
		for j := range s.crowds {
			c := s.crowds[(round+i+j)%len(s.crowds)]
			p, err := s.point(ctx, c, n, link)
			if err != nil {
				return fmt.Errorf("%s, %d workers: %w", c.mode, n, err)
			}
			p.Round = round
			if err := s.say(stationSays{Point: p}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask tells the server something and hears where it is and what it has used.
func (s *station) ask(order any) (says serverSays, err error) {
	if err := s.server.Tell(order); err != nil {
		return says, fmt.Errorf("server: %w", err)
	}
	if err := s.server.Hear(&says); err != nil {
		return says, fmt.Errorf("server: %w", err)
	}
	if says.Err != "" {
		return says, fmt.Errorf("server: %s", says.Err)
	}
	return says, nil
}

// drops tells the switch something and hears what it has dropped.
func (s *station) drops(order any) (int64, error) {
	var says switchSays
	if err := errors.Join(s.network.Tell(order), s.network.Hear(&says)); err != nil {
		return 0, fmt.Errorf("switch: %w", err)
	}
	if says.Err != "" {
		return 0, fmt.Errorf("switch: %s", says.Err)
	}
	return says.Dropped, nil
}

// link is the best rate at which the link has carried a plain stream, or bare
// reads, up to now: others on this machine can only make it slower.
func (s *station) link() (float64, error) {
	var rate float64
	var err error
	if s.cfg.Transport == "verbs" {
		remote := s.reads.region.Remote()
		var says serverSays
		says, err = s.ask(serverAsk{Read: &remote})
		rate = says.ReadRate
	} else {
		rate, err = cable.Stream(s.addresses.Stream, linkTime)
	}
	s.best = max(s.best, rate)
	return s.best, err
}

// state is what has been used and counted so far.
type state struct {
	cpu    float64
	counts Counts
}

func (s *station) state() (st state, err error) {
	says, err := s.ask(serverAsk{})
	if err != nil {
		return st, err
	}
	_, own := usage.Process()
	st.cpu = own + says.CPUSeconds
	st.counts = Counts{RNR: -1, Dropped: -1}
	if s.cfg.Transport == "verbs" {
		devices := []string{s.cfg.ServerDevice, s.cfg.WorkerDevice}
		st.counts.RNR = hardware("/sys", devices, rnrNames)
		st.counts.Retransmitted = hardware("/sys", devices, resentNames)
		return st, nil
	}
	st.counts.Retransmitted = tcpRetransmitted("/proc")
	if s.network != nil { // namespaces apart: both sides count
		st.counts.Retransmitted += says.Retransmitted
		st.counts.Dropped, err = s.drops(struct{}{})
	}
	return st, err
}

func (s *station) point(ctx context.Context, c *crowd, n int, link float64) (*Point, error) {
	p := &Point{Mode: c.mode, Workers: n, Link: link}
	var unloaded, loaded report.Histogram
	if err := c.probe.during(ctx, unloadedTime, &unloaded); err != nil {
		return nil, err
	}
	begin, err := s.state()
	if err != nil {
		return nil, err
	}
	pushedBefore := c.counts(n)
	seenBefore, err := c.probe.seen(ctx)
	if err != nil {
		return nil, err
	}
	var shares []float64
	if err := c.load(ctx, n, func() error {
		first, err := s.ask(serverAsk{})
		if err != nil {
			return err
		}
		before := c.counts(n)
		if err := c.probe.during(ctx, s.cfg.window(n, max(link, c.alone)), &loaded); err != nil {
			return err
		}
		after := c.counts(n)
		last, err := s.ask(serverAsk{})
		if err != nil {
			return err
		}
		p.Seconds = float64(last.Nanos-first.Nanos) / 1e9
		p.Landed = int64(last.Landed[c.mode] - first.Landed[c.mode])
		for i := range after {
			shares = append(shares, float64(after[i]-before[i]))
			p.Each = append(p.Each, int64(after[i]-before[i])*int64(s.cfg.Bytes))
			p.Pushes += after[i] - before[i]
		}
		seen, err := c.probe.seen(ctx)
		if err != nil {
			return err
		}
		p.Seen.name(seen, n)
		policy, err := c.probe.policy(ctx)
		p.ChunkBytes, p.WindowBytes = policy.ChunkBytes, policy.WindowBytes
		p.RTTMicros, p.RateGuess = float64(policy.RTTNanos)/1e3, float64(policy.BytesPerSecond)
		return err
	}); err != nil {
		return nil, err
	}
	finish, err := s.state()
	if err != nil {
		return nil, err
	}
	pushed := make([]int64, n)
	for i, k := range c.counts(n) {
		pushed[i] = int64(k-pushedBefore[i]) * int64(s.cfg.Bytes)
		p.CPUBytes += pushed[i]
	}
	seenAfter, err := c.probe.seen(ctx)
	if err != nil {
		return nil, err
	}
	p.Seen.between(seenBefore, seenAfter, pushed)
	p.CPUSeconds, p.Counts, p.Load = finish.cpu-begin.cpu, finish.counts.minus(begin.counts), report.Load()
	p.Bytes = int64(p.Pushes) * int64(s.cfg.Bytes)
	p.Goodput = float64(p.Landed-int64(loaded.Count())*probeRequest-int64(p.Pushes)*psmsg.RequestBytes) / p.Seconds
	p.Jain, p.Least = jain(shares), least(shares)
	p.Unloaded, p.Loaded, p.Probes = *unloaded.Latency(), *loaded.Latency(), int(loaded.Count())
	if c.alone == 0 {
		c.alone = p.Goodput
	}
	p.Alone = c.alone
	p.BoundMicros = bound(p.Unloaded.P99, p.ChunkBytes, p.WindowBytes, max(link, p.Goodput))
	p.Checksum, err = c.summed()
	return p, err
}

// summed compares the dense vector at the server with the sums of all pushes.
func (c *crowd) summed() (string, error) {
	got, err := c.probe.sums()
	if err != nil {
		return "", err
	}
	for i, want := range sums(c.cfg.floats(), c.cfg.Seed, c.counts(len(c.workers))) {
		if got[i] != want {
			return "", fmt.Errorf("fan-in: element %d is %g at the server, the sum of all pushes is %g: a push was lost, misplaced or added twice", i, got[i], want)
		}
	}
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(mem.Bytes(got))), nil
}
