package psmsg

import (
	"time"

	"psrt/sched/place"
)

// Control methods of a server of a job with replicas. Visitors ask them, at any of
// its servers; beats come from the other servers.
const (
	MethodMap     = "map"     // MapRequest -> MapReply
	MethodBeat    = "beat"    // BeatRequest -> BeatReply
	MethodMembers = "members" // -> MembersReply
)

// MaxMapWait bounds MapRequest.WaitMicros.
const MaxMapWait = 10 * time.Second

// MapRequest asks for the newest shard map that the server knows. With WaitMicros
// the answer is put off, at most so long, until there is one newer than After.
type MapRequest struct {
	After      uint64 `json:"after,omitempty"`
	WaitMicros int64  `json:"wait_us,omitempty"`
}

// MapReply answers it; without a map the job has none as yet.
type MapReply struct {
	Chains *place.Chains `json:"chains,omitempty"`
}

// What a member says of a group in the group's epoch.
const (
	SaidCaught = "caught" // the joiner has all that is acknowledged
	SaidHeld   = "held"   // nothing is under way, nothing is let in
	SaidStuck  = "stuck"  // of the tail: the joiner takes nothing of its copy
	SaidLost   = "lost"   // the member should have the rows and has not
)

// Said is one of these; it is repeated with every beat while the epoch lasts.
type Said struct {
	Group int    `json:"group"`
	Epoch uint64 `json:"epoch"`
	What  string `json:"what"`
}

// GroupEpoch names a group in one epoch.
type GroupEpoch struct {
	Group int    `json:"group"`
	Epoch uint64 `json:"epoch"`
}

// BeatRequest asks the process To whether it is there and which map it has adopted.
type BeatRequest struct {
	From  place.Node   `json:"from"`
	To    place.Node   `json:"to"`
	Epoch uint64       `json:"epoch"` // of the map that From has adopted
	Said  []Said       `json:"said,omitempty"`
	Hold  []GroupEpoch `json:"hold,omitempty"` // To shall drain these, as their head
	// Over: the job has ended, and so do its servers, one after the other.
	Over bool `json:"over,omitempty"`
}

// BeatReply answers it.
type BeatReply struct {
	Epoch uint64 `json:"epoch"`
	Said  []Said `json:"said,omitempty"`
}

// MembersReply is one server's view of the cluster, for people and for psrt doctor.
type MembersReply struct {
	Self  place.Node `json:"self"`
	Epoch uint64     `json:"epoch"` // of the map adopted, 0 before the first
	// Known is the newest map's; it differs while that is being adopted.
	Known uint64 `json:"known,omitempty"`
	// Replicas that are wanted, and the groups that have fewer.
	Replicas int `json:"replicas"`
	Short    int `json:"short"`
	// StoreAway says why the coordinator cannot be asked; changes wait meanwhile.
	StoreAway      string         `json:"store_away,omitempty"`
	StoreAwaySince float64        `json:"store_away_seconds,omitempty"`
	Servers        []MemberServer `json:"servers"`
	Groups         []MemberGroup  `json:"groups"` // those in which this server has a part
	// QueuePairs are those of workers that are open here, and how many may be.
	QueuePairs     int `json:"queue_pairs"`
	QueuePairsMost int `json:"queue_pairs_most,omitempty"`
}

// MemberServer is one server as another one sees it.
type MemberServer struct {
	place.Server
	InMap      bool `json:"in_map"`
	Registered bool `json:"registered"`
	Leaving    bool `json:"leaving,omitempty"`
	Suspected  bool `json:"suspected,omitempty"`
	// Waits: it was cut out, and is not taken in again as yet.
	Waits bool `json:"waits,omitempty"`
	// AnswerSeconds is how long ago the question was asked whose answer is the
	// newest; -1: none came.
	AnswerSeconds float64 `json:"answer_seconds"`
	Epoch         uint64  `json:"epoch,omitempty"` // that it has named
	// Groups, Heads and Tails are its parts in the map.
	Groups int `json:"groups"`
	Heads  int `json:"heads"`
	Tails  int `json:"tails"`
}

// MemberGroup is a group at one of its servers.
type MemberGroup struct {
	Group int    `json:"group"`
	Role  string `json:"role"` // head, middle, tail, only, joins
	Epoch uint64 `json:"epoch"`
	Chain []int  `json:"chain"` // server numbers, head first
	// Joiner catches up behind the tail.
	Joiner *int `json:"joiner,omitempty"`
	// Opening: its tables are being made.
	Opening bool `json:"opening,omitempty"`
	// LeaseSeconds is how long it may serve readers without another answer.
	LeaseSeconds float64 `json:"lease_seconds"`
	// FenceSeconds is how long it waits at most for those cut out to stop serving.
	FenceSeconds float64 `json:"fence_seconds,omitempty"`
	// Stats is the lane's own account; nil while it is opening.
	Stats *ChainStats `json:"stats,omitempty"`
}

// ChainStats is what a replica of a group has and does.
type ChainStats struct {
	Epoch     uint64 `json:"epoch"`
	Position  int    `json:"position"` // in the chain; -1: not in it
	Members   int    `json:"members"`
	Head      bool   `json:"head,omitempty"`
	Joining   bool   `json:"joining,omitempty"`
	Leased    bool   `json:"leased,omitempty"`
	Committed uint64 `json:"committed"` // ops
	LogOps    int    `json:"log_ops"`
	LogBytes  int    `json:"log_bytes"`
	Waiting   int    `json:"waiting"`          // pushes ordered and not committed
	Flowed    uint64 `json:"flowed,omitempty"` // pushes that a head has passed on while they came
	Failed    string `json:"failed,omitempty"` // why its copy is not one any more
}
