package member

import (
	"time"

	"psrt/sched/place"
)

// Node is one server process.
type Node = place.Node

// Times are the intervals of failure detection. Zero values get defaults.
type Times struct {
	Beat time.Duration // between two beats to a peer, 50 ms
	// Suspect is how long a server may be without an answer, 200 ms; longer, up to
	// patient times, where its answers took long of late: machines may be loaded.
	Suspect time.Duration
	// Silent is how long before it is cut out for that, 2 s: a suspected server is not
	// waited for, but one that is cut out must have its rows copied again. Longer, up to
	// neverHeard times, where its answers took long of late. One whose connections are
	// refused is cut out at once.
	Silent  time.Duration
	Lease   time.Duration // that a confirmation is good for, from when it was asked for, 500 ms
	Stagger time.Duration // between the proposals of servers with the same aim, 100 ms
	Rejoin  time.Duration // that a server is left out after it was cut out, 2 s
	// DriftPercent is by how much two machines' clocks may differ in speed, 2. Fences
	// last longer by it.
	DriftPercent int
}

// A server is suspected after slowTimes as long as its slowest answer of late took,
// and at least Suspect, at most patient times that: so long one may take that has
// never answered. Each answer takes 1/fades off what is remembered.
const (
	slowTimes = 4
	patient   = 10
	fades     = 128
)

// Patience is the longest time after which a server is suspected.
func (t Times) Patience() time.Duration { return patient * t.Suspect }

// OrDefault is t with defaults for what is zero.
func (t Times) OrDefault() Times {
	set := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&t.Beat, 50*time.Millisecond)
	set(&t.Suspect, 200*time.Millisecond)
	set(&t.Silent, 2*time.Second)
	set(&t.Lease, 500*time.Millisecond)
	set(&t.Stagger, 100*time.Millisecond)
	set(&t.Rejoin, 2*time.Second)
	if t.DriftPercent <= 0 {
		t.DriftPercent = 2
	}
	return t
}

// Fence is how long who is cut out may still serve after it was answered last, by any
// server's clock.
func (t Times) Fence() time.Duration {
	return t.Lease + t.Lease*time.Duration(t.DriftPercent)/100
}

// Beat goes to every other server: it asks, and answers what was asked.
type Beat struct {
	From, To Node
	Answer   bool
	Asked    time.Duration // when, by the asker's clock
	Epoch    uint64        // of the whole map that the sender has adopted
}

// Peers is what one server knows of the others from the beats between them. Times
// are of this server's clock alone, since any moment; no two clocks are compared.
type Peers struct {
	self  Node
	times Times
	epoch uint64
	late  absence // in all; see Late
	peers map[Node]*peer
}

type peer struct {
	since    time.Duration // first looked at
	beat     time.Duration // next one
	asked    time.Duration // of the newest question that was answered
	answered bool          // any
	epoch    uint64        // of that answer
	reached  uint64        // highest epoch it has named: it has left all before
	granted  time.Duration // when it was answered last
	any      bool          // it was
	broken   bool          // its connection ended with an error; until the next answer
	brokenAt time.Duration
	late     absence       // Peers.late at the newest answer, or first look
	slow     time.Duration // the slowest answer of late
}

// NewPeers knows nobody.
func NewPeers(self Node, times Times) *Peers {
	return &Peers{self: self, times: times.OrDefault(), peers: map[Node]*peer{}}
}

// Times is what was asked for, with defaults.
func (p *Peers) Times() Times { return p.times }

// Adopt is called in the same moment as all groups' machines adopt a map: answers
// are given for this epoch from now on.
func (p *Peers) Adopt(epoch uint64) { p.epoch = max(p.epoch, epoch) }

func (p *Peers) peer(n Node, now time.Duration) *peer {
	q := p.peers[n]
	if q == nil {
		q = &peer{since: now, beat: now, late: p.late}
		p.peers[n] = q
	}
	return q
}

// Tick returns the beats that are due to nodes, which it watches from now on.
func (p *Peers) Tick(nodes []Node, now time.Duration) (beats []Beat) {
	for _, n := range nodes {
		if n == p.self {
			continue
		}
		if q := p.peer(n, now); now >= q.beat {
			q.beat = now + p.times.Beat
			beats = append(beats, Beat{From: p.self, To: n, Asked: now, Epoch: p.epoch})
		}
	}
	return beats
}

// Due says whether the next beat to a node that is watched is due.
func (p *Peers) Due(n Node, now time.Duration) bool {
	q := p.peers[n]
	return q != nil && now >= q.beat
}

// Hurry makes the next beat to everybody due now.
func (p *Peers) Hurry(now time.Duration) {
	for _, q := range p.peers {
		q.beat = min(q.beat, now)
	}
}

// Heard is when the question was asked whose answer is the newest, and the highest
// epoch that a node has named.
func (p *Peers) Heard(n Node) (asked time.Duration, epoch uint64, ok bool) {
	q := p.peers[n]
	if q == nil {
		return 0, 0, false
	}
	return q.asked, q.reached, q.answered
}

// Step takes a beat, and returns the answer to a question. newer says that the
// sender has a newer map.
func (p *Peers) Step(b Beat, now time.Duration) (answer Beat, answers, newer bool) {
	if b.To != p.self {
		return
	}
	q := p.peer(b.From, now)
	q.reached = max(q.reached, b.Epoch)
	newer = b.Epoch > p.epoch
	if !b.Answer {
		q.granted, q.any = now, true
		if q.answered && q.epoch < p.epoch && b.Epoch >= p.epoch { // it has adopted since it was asked: a lease waits for its word
			q.beat = min(q.beat, now)
		}
		return Beat{From: p.self, To: b.From, Answer: true, Asked: b.Asked, Epoch: p.epoch}, true, newer
	}
	q.slow = max(q.slow-q.slow/fades, now-b.Asked)
	if !q.answered || b.Asked > q.asked {
		q.asked, q.epoch, q.answered, q.late = b.Asked, b.Epoch, true, p.late
		if q.broken && b.Asked > q.brokenAt {
			q.broken = false
		}
	}
	return Beat{}, false, newer
}

// Broken notes an error on a connection to a node: it is suspected at once, until
// it answers something asked later.
func (p *Peers) Broken(n Node, now time.Duration) {
	q := p.peer(n, now)
	q.broken, q.brokenAt = true, now
}

// absence is for how long a server did nothing, in pauses: it was away for as long as
// others are away that are cut out, or it was late, again and again.
type absence struct{ away, late time.Duration }

// Late says that this server itself did nothing for so long beyond what was planned:
// it was stopped, or got no processor. Nobody is suspected for a silence that long.
// Leases and fences take no notice.
func (p *Peers) Late(d time.Duration) {
	if d >= p.times.Silent {
		p.late.away += d
	} else {
		p.late.late += d
	}
}

// silence is for how long a node has not answered, since a moment, in the time in which
// this server could have heard it. A server that gets a processor now and then is late
// nearly all of the time, and yet hears what has come whenever it is not: its being late
// excuses others for no longer than Silent.
func (p *Peers) silence(q *peer, since, now time.Duration) time.Duration {
	return now - since - (p.late.away - q.late.away) - min(p.late.late-q.late.late, p.times.Silent)
}

// Suspects says whether a node is believed dead.
func (p *Peers) Suspects(n Node, now time.Duration) bool {
	q := p.peers[n]
	if n == p.self || q == nil {
		return false
	}
	from, limit := q.since, p.times.Patience()
	if q.answered {
		from, limit = q.asked, min(max(p.times.Suspect, slowTimes*q.slow), limit)
	}
	return q.broken || p.silence(q, from, now) > limit+p.times.Beat
}

// neverHeard is how many Silents one may take that has never answered.
const neverHeard = 5

// Dead says whether a node is to be cut out. Its limit follows how slow the node was: where
// machines have far more to do than they can, all are silent for seconds now and then, and
// who is cut out for that adds the copy of its rows to the load.
func (p *Peers) Dead(n Node, now time.Duration) bool {
	q := p.peers[n]
	if !p.Suspects(n, now) || q.broken {
		return p.Suspects(n, now)
	}
	from, limit := q.since, neverHeard*p.times.Silent
	if q.answered {
		from, limit = q.asked, min(max(p.times.Silent, slowTimes*q.slow), limit)
	}
	return p.silence(q, from, now) > limit+p.times.Beat
}

// Leased says whether this server may serve readers of a group that is of epoch
// since, with these members: each other one has confirmed that it knows no newer
// chain, in answer to a question that is not older than Lease. A member that has
// adopted a newer map than we have does not confirm.
func (p *Peers) Leased(members []Node, since uint64, now time.Duration) bool {
	for _, n := range members {
		if n == p.self {
			continue
		}
		q := p.peers[n]
		if q == nil || !q.answered || q.epoch < since || q.epoch > p.epoch || now-q.asked >= p.times.Lease {
			return false
		}
	}
	return true
}

// Unheard are those of a group's members for want of whose word Leased is false, and
// since when: from when the newest question was asked that they have answered for, or
// from when they were looked at first.
func (p *Peers) Unheard(members []Node, since uint64, now time.Duration) (nodes []Node, times []time.Duration) {
	for _, n := range members {
		q := p.peers[n]
		if n == p.self || p.Leased([]Node{n}, since, now) {
			continue
		}
		at := now
		switch {
		case q != nil && q.answered:
			at = q.asked
		case q != nil:
			at = q.since
		}
		nodes, times = append(nodes, n), append(times, at)
	}
	return nodes, times
}

// LeaseEnd is until when Leased will be true if no answer comes any more: what a
// reader that looks for itself (one-sided reads) may be promised.
func (p *Peers) LeaseEnd(members []Node, since uint64, now time.Duration) (end time.Duration, ok bool) {
	if !p.Leased(members, since, now) {
		return 0, false
	}
	end = now + p.times.Lease
	for _, n := range members {
		if n != p.self {
			end = min(end, p.peers[n].asked+p.times.Lease)
		}
	}
	return end, true
}

// Released is from when on nodes serve no reader of an epoch before epoch any
// more. Call it right after Adopt: what this server answers from then on confirms
// nothing older. A node that has named the epoch itself has left those before.
func (p *Peers) Released(nodes []Node, epoch uint64, now time.Duration) time.Duration {
	end := now
	for _, n := range nodes {
		if q := p.peers[n]; q != nil && q.any && q.reached < epoch {
			end = max(end, q.granted+p.times.Fence())
		}
	}
	return end
}

// Reached says whether nodes have all named the epoch, or a later one, so that a
// fence can end early.
func (p *Peers) Reached(nodes []Node, epoch uint64) bool {
	for _, n := range nodes {
		if q := p.peers[n]; q == nil || q.reached < epoch {
			return false
		}
	}
	return true
}

// Forget drops nodes that are in nobody's map any more.
func (p *Peers) Forget(keep func(Node) bool) {
	for n := range p.peers {
		if !keep(n) {
			delete(p.peers, n)
		}
	}
}
