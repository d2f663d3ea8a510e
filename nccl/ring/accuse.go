package ring

import (
	"fmt"

	"psrt/nccl/coll"
)

// What follows is for who moves the bytes in another way, and has this group to agree and
// to hear of deaths. Nothing of it may run beside a call of this group but Blame.

// Lost is a rank whose connection has ended, be it that it died or closed its group; nil
// where there is none that is known.
func (g *Group) Lost() *coll.RankError {
	for _, p := range g.around {
		if p.gone.Load() {
			return &coll.RankError{Rank: p.rank, Fault: coll.Gone, Cause: p.conn.Err()}
		}
	}
	return nil
}

// Ask is a rank that does not answer within answerTime, or is lost; nil where all answer.
func (g *Group) Ask() *coll.RankError {
	_, errs := g.ask(g.around)
	if e := g.Lost(); e != nil {
		return e
	}
	for i, p := range g.around {
		if errs[i] != nil {
			return &coll.RankError{Rank: p.rank, Fault: coll.Silent, Cause: errs[i]}
		}
	}
	return nil
}

// Blame breaks the group, and tells the others for whom.
func (g *Group) Blame(e *coll.RankError) {
	if g.setVerdict(fmt.Errorf("ring: broken here: %w", e)) {
		g.tell()
		g.mux.Wake()
	}
}
