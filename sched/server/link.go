package server

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"psrt/rdma"
	"psrt/sched/fanin"
	"psrt/sched/psmsg"
)

// FanIn is how a server fetches what requests name in memory that it cannot
// map.
type FanIn uint8

const (
	// FanInAuto grants where the bytes cross a link, and does not where both
	// processes use TCP in one network namespace.
	FanInAuto FanIn = iota
	// FanInGranted fetches chunk by chunk as the policy in sched/fanin allows,
	// so that what is on its way to this server never exceeds what its link
	// holds.
	FanInGranted
	// FanInBlast fetches everything at once.
	FanInBlast
)

// eagerBytes is how much of a request may ride in its slot where the rest is
// granted.
const eagerBytes = 4 << 10

// chainChunk is the shortest chunk of a replica. What it fetches it hands on in pieces of
// flowPiece, and has a core for three times as much work a byte: with 4 KiB a push was
// bound by that at 100 Mbit/s.
const chainChunk = 16 << 10

// links are the server's links: one policy for all lanes behind a device.
type links struct {
	mu    sync.Mutex
	all   map[rdma.Domain]*link
	lanes []*lane
	start time.Time
}

func newLinks() *links { return &links{all: map[rdma.Domain]*link{}, start: time.Now()} }

// of is the link behind a domain, made at the first call.
func (s *links) of(d rdma.Domain, cfg *Config) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.all[d]; k != nil {
		return k, nil
	}
	sources := len(s.lanes) * cfg.Workers * cfg.sessionsEach()
	guess := fanin.Config{Workers: sources, Transfers: psmsg.Slots, EagerBytes: eagerBytes, MaxBytes: MaxStageBytes}
	if d.Caps().Transport != "verbs" {
		// A thread at the worker answers reads, when it gets a core.
		guess.Rate, guess.RTTNanos, guess.LateNanos, guess.SilenceNanos = 125e6, 100_000, 2_000_000, 100_000_000
	}
	if cfg.Chain != nil && d.Caps().Transport != "verbs" {
		guess.LeastChunk = chainChunk
	}
	p, err := fanin.New(guess)
	if err != nil {
		return nil, err
	}
	k := &link{device: device(d), lanes: s.lanes, start: s.start, policy: p, sources: make([]*session, sources), inbox: make([][]granted, len(s.lanes))}
	for i := range sources {
		k.free = append(k.free, sources-1-i)
	}
	k.deadline.Store(fanin.Never)
	s.all[d] = k
	return k, nil
}

func (s *links) stats() []psmsg.FanInStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []psmsg.FanInStats
	for _, k := range s.all {
		k.mu.Lock()
		p := k.policy.Stats()
		k.mu.Unlock()
		all = append(all, psmsg.FanInStats{Device: k.device, BytesPerSecond: p.Rate, RTTNanos: p.RTTNanos,
			ChunkBytes: p.ChunkBytes, WindowBytes: p.WindowBytes, OutstandingBytes: p.OutstandingBytes, WaitingSessions: p.WaitingWorkers,
			Grants: p.Grants, GrantedBytes: p.GrantedBytes, LandedBytes: p.LandedBytes, Late: p.Late, SetAside: p.SetAside, First: p.First, Passed: p.Passed})
	}
	slices.SortFunc(all, func(a, b psmsg.FanInStats) int { return strings.Compare(a.Device, b.Device) })
	return all
}

// device names a link: the device where there is one, else the transport.
func device(d rdma.Domain) string {
	c := d.Caps()
	if c.Device != "" {
		return c.Device
	}
	return c.Transport
}

// link is one device's share of the fan-in: who may send how much. Every lane
// tells it what has landed; who does gets the next grants, and puts those of
// other lanes' sessions into their inboxes. To the policy each session is a
// worker of its own, so that one that ends takes nothing of its successor.
type link struct {
	device string
	lanes  []*lane
	start  time.Time

	deadline atomic.Int64 // of the policy, in its nanoseconds
	news     atomic.Bool  // since the last grants

	mu      sync.Mutex
	policy  *fanin.Policy
	sources []*session // by the policy's worker; nil: free
	free    []int
	scratch []fanin.Grant
	inbox   [][]granted // by lane; at most what the windows allow
}

// granted is a grant with the session it is for.
type granted struct {
	s *session
	fanin.Grant
}

// follows says whether g goes on where before ends.
func (g granted) follows(before granted) bool {
	return g.s == before.s && g.ID == before.ID && g.Offset == before.Offset+before.Bytes
}

func (k *link) now() int64 { return int64(time.Since(k.start)) }

// enter gives a session its number.
func (k *link) enter(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.free) == 0 {
		return // more sessions than a lane takes: this one is refused by its queue
	}
	s.source = k.free[len(k.free)-1]
	k.free = k.free[:len(k.free)-1]
	k.sources[s.source] = s
	s.link = k
}

// leave forgets a session: nothing of it can land any more.
func (k *link) leave(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_ = k.policy.Leave(s.source, k.now()) // the number is one of ours
	k.sources[s.source] = nil
	k.free = append(k.free, s.source)
	k.grant(nil)
}

// announce files a request's fetch, landed notes a part of it.
func (k *link) announce(s *session, id uint64, bytes int64, kind fanin.Kind) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news.Store(true)
	return k.policy.Announce(s.source, id, bytes, kind, k.now())
}

func (k *link) landed(s *session, id uint64, bytes int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news.Store(true)
	_, err := k.policy.Arrived(s.source, id, int64(bytes), k.now())
	return err
}

// answer notes n more bytes of answers on their way, or fewer.
func (k *link) answer(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news.Store(true)
	k.policy.Answers(int64(n))
}

// due gives out what may be granted now: once for all that a poll has brought,
// or because time has passed. What is self's own it finds in its inbox.
func (k *link) due(self *lane) {
	if !k.news.Load() && k.now() < k.deadline.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.news.Store(false)
	k.grant(self)
}

// grant fills the inboxes and wakes their lanes, but for self. With mu.
func (k *link) grant(self *lane) {
	k.scratch = k.policy.Grants(k.now(), k.scratch[:0])
	for _, g := range k.scratch {
		s := k.sources[g.Worker]
		l := s.lane
		k.inbox[l.index] = append(k.inbox[l.index], granted{s, g})
		if !l.granted.Swap(true) && l != self {
			l.mux.Wake()
		}
	}
	k.deadline.Store(k.policy.Deadline())
}

// take moves a lane's inbox into dst.
func (k *link) take(l *lane, dst []granted) []granted {
	k.mu.Lock()
	defer k.mu.Unlock()
	dst = append(dst, k.inbox[l.index]...)
	clear(k.inbox[l.index])
	k.inbox[l.index] = k.inbox[l.index][:0]
	return dst
}
