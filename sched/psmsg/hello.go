package psmsg

import (
	"fmt"

	"psrt/sched/place"
)

// Version is the newest protocol that this program speaks, Oldest the oldest: that
// of the release before, so that a running job can be taken from one release to the
// next process by process. The two ends of a connection speak the newest that both
// know; on each, everything is of that version. A version changes what is said when
// a connection is made, by control calls, or in the layouts of Request and Reply
// (layout), or what may be left out of a message.
//
// 4: rings of Slots x SlotBytes. 5: groups of a job with replicas (Hello.Chained);
// a landing ring says by its length how long its slots are. 6: connections that only
// read (Hello.Reads), and pulls that name the least version they may be answered with.
// 7: compressed pushes that say of how many steps a gradient is the sum (TimesSince). 8:
// workers that are waited for, and that finish (QuorumSince).
const (
	Version = 8
	Oldest  = 4
)

// newest is Newest's, written before anything else runs.
var newest = Version

// Newest is the newest version that this process speaks: Version, but in a test of the release before.
func Newest() int { return newest }

// SpeakUpTo has this process say of itself, from its first hello on, that it knows no
// version after v. It is for tests, in which it is the process of an older program.
func SpeakUpTo(v int) {
	if v < chainedSince || v > Version {
		panic(fmt.Sprintf("psmsg: SpeakUpTo(%d), want %d to %d", v, chainedSince, Version))
	}
	newest = v
}

// Hello is the application's part of the connection handshake.
type Hello struct {
	// Protocol is the oldest version that the client speaks, Newest the newest; 0, as
	// version 4 says it: the same.
	Protocol int `json:"protocol"`
	Newest   int `json:"newest,omitempty"`
	Worker   int `json:"worker"`
	// Client is a number drawn by each client: it tells a worker that came back
	// from another process that claims to be the same worker.
	Client uint64 `json:"client"`
	// Generation counts the processes that have had the worker's number, from 1; 0:
	// the client does not say. A greater one takes the number over.
	Generation int `json:"generation,omitempty"`
	// Any says that Worker is only a wish: a server whose trainers come and go
	// gives another number where that one is taken.
	Any bool `json:"any,omitempty"`
	// Chained says that the connection is for one group of a job with replicas, and
	// to its head. Epoch is that of the map by which the client comes.
	Chained bool   `json:"chained,omitempty"`
	Group   int    `json:"group,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`
	// Reads says that the connection is for pulls alone: any member of the group's
	// chain takes it.
	Reads bool `json:"reads,omitempty"`
	// Ahead says that the connection is for when this server leads the group, which it
	// is to do soon: it is opened then. Older servers refuse it, as they lead nothing yet.
	Ahead bool `json:"ahead,omitempty"`
	// Looks says that the worker takes no steps and pushes nothing: no barrier waits for it.
	// Older servers' do.
	Looks bool `json:"looks,omitempty"`
	// Link says that this is no worker, but the server before or after in a chain.
	Link *Link `json:"link,omitempty"`
}

// Link is a connection between two servers for one group.
type Link struct {
	Group int        `json:"group"`
	From  place.Node `json:"from"`
	To    place.Node `json:"to"`
}

// Says is h of a client that speaks the versions of this program.
func (h Hello) Says() Hello {
	h.Protocol, h.Newest = Oldest, newest
	if h.Chained {
		h.Protocol = chainedSince
	}
	if h.Reads { // an older server would take it for the worker itself
		h.Protocol = readsSince
	}
	return h
}

// chainedSince is the first version with groups.
const chainedSince = 5

// readsSince is the first version with connections that only read.
const readsSince = 6

// QuorumSince is the first version in which EnterRequest names the number of workers, and
// with MethodFinish, MethodBlocked and MethodPushed. Of a session in bsp a server
// acknowledges pushes before their step is over where its slots run short; what becomes
// of them it answers to the push that ends the step.
const QuorumSince = 8

// Spoken is the version that a server of this program and the client speak; an
// error, for the client to read, where there is none.
func (h Hello) Spoken() (int, error) { return h.SpokenUpTo(newest) }

// SpokenUpTo is Spoken of a server that speaks no newer version, for the sake of others
// that must understand what it passes on to them.
func (h Hello) SpokenUpTo(newest int) (int, error) {
	theirs := max(h.Protocol, h.Newest)
	v := min(theirs, newest)
	switch {
	case v < Oldest || v < h.Protocol:
		return 0, fmt.Errorf("psmsg: this server speaks protocols %d to %d, the client %d to %d: take a job from one release to the next, and leave none out", Oldest, newest, h.Protocol, theirs)
	case h.Chained && v < chainedSince:
		return 0, fmt.Errorf("psmsg: a group was asked for in protocol %d, there are groups since %d", v, chainedSince)
	}
	return v, nil
}

// Welcome answers it.
type Welcome struct {
	Server int `json:"server"`
	Lanes  int `json:"lanes"`
	Worker int `json:"worker"` // the number that the client has
	// Protocol is the version spoken; 0, as version 4 says it: that.
	Protocol int `json:"protocol,omitempty"`
	// Epoch is of the group, where one was asked for.
	Epoch uint64 `json:"epoch,omitempty"`
}

// Spoken is the version that the connection speaks, as the client learns it.
func (w Welcome) Spoken(h Hello) (int, error) {
	v := w.Protocol
	if v == 0 {
		v = Oldest
	}
	if v < h.Protocol || v > max(h.Protocol, h.Newest) {
		return 0, fmt.Errorf("psmsg: server %d speaks protocol %d, this program %d to %d: take a job from one release to the next, and leave none out", w.Server, v, h.Protocol, max(h.Protocol, h.Newest))
	}
	return v, nil
}
