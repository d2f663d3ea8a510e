package job

import (
	"slices"
	"strconv"

	"psrt/sched/coord/etcd"
)

// Of the ranks that keep a job's store (keepers.go) some die, or are taken out of the
// job. The others then go on without them, and another rank takes the place, while most
// of them live: so that it is the keepers of a moment of which most must live, and not
// those of the job's beginning. etcd's own changes of membership do it, one at a time;
// who leads asks for them.
//
//	succession      what a rank must know to become a keeper
//	keeping/<rank>  that keeper lives; under its lease
//	offer/<rank>    that rank would be one; under its lease
//	room/<i>        the rank that has the i-th place among those; under its lease
//	first/<host>    the rank of a host that came first to offer itself; under its lease
//	called/<rank>/  it is to be one, and who the others are
const (
	keySuccession = "succession"
	keepingPrefix = "keeping/"
	offerPrefix   = "offer/"
	roomPrefix    = "room/"
	firstPrefix   = "first/"
	calledPrefix  = "called/"
)

// offers is how many ranks are ready at a time: as many as could have to be replaced.
const offers = manyKeepers

// successionWord is under keySuccession. Who holds the job's token reads it.
type successionWord struct {
	Members     int              `json:"members"` // as many as there are to be
	Cluster     string           `json:"cluster"`
	Credentials etcd.Credentials `json:"credentials"`
}

// keepingCard is under keepingPrefix, and under offerPrefix with Peer.
type keepingCard struct {
	Host   string `json:"host"`
	Serves bool   `json:"serves"`
	Peer   string `json:"peer,omitempty"`
}

// calledWord is under calledPrefix: the members by name, itself among them.
type calledWord struct {
	Peers map[string]string `json:"peers"`
}

// keepersView is what who leads knows.
type keepersView struct {
	want    int
	members []etcd.Member
	living  map[int]keepingCard // by rank, of keepers
	offers  map[int]keepingCard
}

type changeKind int

const (
	noChange changeKind = iota
	removeMember
	addMember
	promoteMember
)

// keepersChange is the next thing to do.
type keepersChange struct {
	kind changeKind
	id   uint64 // of the member
	rank int    // who is to be one, or is to have its vote
}

// next is what is to be done now: first who joins is led to its end, then the dead go,
// for each of them counts for a majority, then others come.
func (v *keepersView) next() keepersChange {
	voters, living := 0, 0
	var dead []uint64
	for _, m := range v.members {
		if m.Learner {
			if r, ok := v.offered(m.Addr); ok {
				return keepersChange{promoteMember, m.ID, r}
			}
			return keepersChange{kind: removeMember, id: m.ID}
		}
		voters++
		if _, ok := v.living[rankNamed(m.Name)]; ok {
			living++
		} else {
			dead = append(dead, m.ID)
		}
	}
	if len(dead) > 0 {
		if living <= (voters-1)/2 { // what is left could not agree
			return keepersChange{}
		}
		return keepersChange{kind: removeMember, id: slices.Min(dead)}
	}
	if voters >= v.want {
		return keepersChange{}
	}
	if r, ok := v.best(); ok {
		return keepersChange{kind: addMember, rank: r}
	}
	return keepersChange{}
}

func (v *keepersView) offered(addr string) (rank int, ok bool) {
	for r, o := range v.offers {
		if o.Peer == addr {
			return r, true
		}
	}
	return 0, false
}

// best is who is chosen of those that offer: by the rule of keepersWish.choose, one
// after the other.
func (v *keepersView) best() (rank int, ok bool) {
	least := 0
	for r, o := range v.offers {
		if slices.ContainsFunc(v.members, func(m etcd.Member) bool { return rankNamed(m.Name) == r }) {
			continue // an earlier process of that rank is not gone yet
		}
		cost := 0
		for _, k := range v.living {
			if k.Host == o.Host {
				cost = 2
			}
		}
		if !o.Serves {
			cost++
		}
		if !ok || cost < least || cost == least && r < rank {
			rank, least, ok = r, cost, true
		}
	}
	return rank, ok
}

// rankNamed is the rank of a member's name, -1 of one that has not started.
func rankNamed(name string) int {
	r, err := strconv.Atoi(name)
	if err != nil {
		return -1
	}
	return r
}
