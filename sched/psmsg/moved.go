package psmsg

import (
	"errors"
	"fmt"
	"strings"

	"psrt/sched/place"
)

// Moved is why a server refuses a worker, or ends its session: it is not the head of
// the group. Only text comes back from a refusal and from a call that fails, so its
// text begins with a form that MovedIn finds.
type Moved struct {
	Group int
	// Epoch is of the newest map that the server has: who came by an older one asks
	// for the map, who came by a newer one asks the server again.
	Epoch  uint64
	Server int // that says so
}

func (m *Moved) Error() string {
	return fmt.Sprintf("%s%d epoch %d server %d]: it is not the group's head", movedMark, m.Group, m.Epoch, m.Server)
}

const movedMark = "moved [group "

// MovedIn finds a Moved in err, or in the text of one that came from a peer.
func MovedIn(err error) (Moved, bool) {
	var m *Moved
	if errors.As(err, &m) {
		return *m, true
	}
	if err == nil {
		return Moved{}, false
	}
	return parseMoved(err.Error())
}

func parseMoved(text string) (m Moved, ok bool) {
	_, rest, ok := strings.Cut(text, movedMark)
	if !ok {
		return m, false
	}
	rest, _, ok = strings.Cut(rest, "]")
	if !ok {
		return m, false
	}
	n, err := fmt.Sscanf(rest+"]", "%d epoch %d server %d]", &m.Group, &m.Epoch, &m.Server)
	if err != nil || n != 3 || m.Group < 0 || m.Group >= place.MaxGroups || m.Server < 0 {
		return Moved{}, false
	}
	return m, true
}

// Repeatable says whether a control call whose connection broke may be made again,
// at whoever is the group's head then: it changes nothing, or what comes twice is
// done once, or the second takes the place of the first. Not so are a cut and its
// end (what a new head was never told of it cannot have noted: the checkpoint is
// given up, and begun anew), and a barrier (it may have let the others go).
func Repeatable(method string) bool {
	switch method {
	case MethodDigest, MethodStats, MethodLives, MethodDescribe, MethodMap, MethodMembers, MethodSwept, MethodPushed, // change nothing
		MethodBlocked,                                                                              // ends a barrier once, and that only where it is asked to
		MethodLeave, MethodCarry, MethodEnter, MethodTable, MethodHappen, MethodGoOn, MethodFinish, // say what shall be
		MethodSave, MethodLoad: // do all of it again
		return true
	}
	return false
}
