package ring

import (
	"slices"

	"psrt/csrc/fold"
	"psrt/nccl/coll"
	"psrt/nccl/hier"
)

// An all-reduce over several hosts in which some have several ranks is made in three
// steps (package hier says who does what):
//
//	rank r of part P         ranks of P          owners of the same bytes elsewhere
//	fold its bytes of their
//	  Sends into its Recv
//	added               ---------------------->
//	                    <----------------------  added
//	for each slice that r finishes:
//	  read the others' Recvs, fold with its own, write the result into theirs
//	result              ---------------------->
//	                    <----------------------  result
//	write its bytes into
//	  their Recvs
//	done                --->
//	                    <---
//
// A part's sum may lie in Recv also where that is Send: of r's part nobody else reads
// those bytes of r. Beside begin there are two words each way between two ranks, or one.

// levels is what this rank does, nil where the call is not made so.
func (x *op) levels() *hier.Plan {
	g := x.g
	if x.c.Kind != coll.AllReduce || !g.inLevels(x.block) {
		return nil
	}
	p := g.levels.Plan(g.place.Rank, x.block)
	return &p
}

// mate says whether a rank is of this one's part.
func (x *op) mate(rank int) bool {
	l := x.g.levels
	return l.Of[rank] == l.Of[x.g.place.Rank]
}

func (x *op) combineLevels() error {
	links := func(p *peer) bool { _, is := slices.BinarySearch(x.plan.Links, p.rank); return is }
	if err := x.addPart(); err != nil {
		return err
	}
	if err := x.turn(wordAdded, links); err != nil {
		return err
	}
	for _, s := range x.plan.Slices {
		if err := x.finish(s); err != nil {
			return err
		}
	}
	if err := x.turn(wordResult, links); err != nil {
		return err
	}
	return x.combine(reduction{
		n: x.plan.End - x.plan.First, recvAt: x.plan.First, sendAt: x.plan.First, past: x.block,
		from: noRank, to: func(r int) bool { return r != x.g.place.Rank && x.mate(r) },
		own: x.c.Recv, place: func(int) int { return 0 }, operands: 1, job: fold.Job{Type: x.c.Type},
	})
}

func noRank(int) bool { return false }

// turn says a word to some peers and waits for theirs.
func (x *op) turn(w word, to func(*peer) bool) error {
	g := x.g
	h := x.mine
	h.word, h.absent = w, false
	for _, p := range g.around {
		if to(p) {
			if err := g.say(p, &h, nil); err != nil {
				return err
			}
		}
	}
	if err := g.wait(func(p *peer) bool { return to(p) && len(p.inbox) == 0 }); err != nil {
		return err
	}
	for _, p := range g.around {
		if to(p) {
			if err := g.take(p, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// addPart adds what this rank owns.
func (x *op) addPart() error {
	me, l := x.g.place.Rank, x.g.levels
	part := &l.Parts[l.Of[me]]
	if !x.partPresent(l.Of[me]) {
		return nil
	}
	r := reduction{
		n: x.plan.End - x.plan.First, sendAt: x.plan.First, recvAt: x.plan.First,
		from: func(r int) bool { return x.mate(r) && x.present(r) }, to: func(r int) bool { return r == me },
		place: l.Place, operands: len(part.Ranks), job: x.job(),
	}
	if !x.c.Absent {
		r.own = x.c.Send
	}
	r.job.Order, r.job.Divide = part.Order, 0
	return x.combine(r)
}

// partPresent says whether a part has a sum.
func (x *op) partPresent(part int) bool {
	return slices.ContainsFunc(x.g.levels.Parts[part].Ranks, x.present)
}

// finish adds the parts' sums of a slice, and gives the result to its owners.
func (x *op) finish(s hier.Slice) error {
	me, l := x.g.place.Rank, x.g.levels
	owner := func(r int) bool { return s.Owners[l.Of[r]] == r }
	r := reduction{
		n: s.End - s.First, sendAt: s.First, recvAt: s.First, results: true,
		from: func(r int) bool { return owner(r) && x.partPresent(l.Of[r]) }, to: owner,
		place: func(r int) int { return l.Of[r] }, operands: len(l.Parts), job: x.job(),
	}
	if x.partPresent(l.Of[me]) {
		r.own = x.c.Recv
	}
	r.job.Order = l.Above
	return x.combine(r)
}

// Parts are the ranks that add a vector of so many bytes among themselves before the
// parts' sums are added; nil: all is added at once.
func (g *Group) Parts(bytes int) (parts [][]int) {
	if !g.inLevels(bytes) {
		return nil
	}
	for _, p := range g.levels.Parts {
		parts = append(parts, slices.Sorted(slices.Values(p.Ranks)))
	}
	return parts
}

// inLevels says whether a vector is long enough.
func (g *Group) inLevels(bytes int) bool {
	return g.levels != nil && bytes > g.opt.EagerBytes && bytes >= g.opt.HostBytes
}
