package judge

import (
	"fmt"

	"slices"

	"psrt/sched/audit"
	"psrt/tiers/accessor"
)

// judgement is the work on one table in one lane.
type judgement struct {
	r     *run
	h     *history
	table string         // its name
	count map[string]int // violations, by kind
	steps map[uint32]*workerSteps
	// What is found out once, where an answer names no version: see mustHave.
	whole  *uint64
	newest map[client]uint64
}

func (r *run) judge(k tableKey) error {
	h := r.tables[k]
	j := &judgement{r: r, h: h, table: r.tableName(k.table), count: map[string]int{}}
	if len(h.logs) == 0 {
		if len(h.pushes)+len(h.pulls) > 0 {
			r.note("there is no record of lane %d: what its workers asked (%d pulls, %d pushes of table %s) is not judged", k.lane, len(h.pulls), len(h.pushes), j.table)
			r.out.Unjudged += len(h.pulls) + len(h.pushes)
		}
		return nil
	}
	h.stitch(j)
	if h.ends != "" {
		r.note("%s", h.ends)
	}
	j.lived()
	j.takes()
	j.lost()
	j.pulls()
	j.wholeSteps()
	return j.replay()
}

func (r *run) tableName(id uint32) string {
	if id == audit.DenseTable {
		return "dense"
	}
	for i := range r.head.Tables {
		if r.head.Tables[i].ID == id {
			return r.head.Tables[i].Name
		}
	}
	return fmt.Sprint(id)
}

// broken reports a violation.
func (j *judgement) broken(v *Violation) {
	v.Lane, v.Table = int(j.h.lane), j.table
	j.r.out.Broken++
	if j.count[v.Kind]++; j.count[v.Kind] <= eachMost {
		j.r.out.Violations = append(j.r.out.Violations, v)
	}
}

// end is the last version that is recorded.
func (h *history) end() uint64 {
	if len(h.events) == 0 {
		return 0
	}
	return h.events[len(h.events)-1].version
}

// lived: what happens to the rows of a table happens in all lanes, in one order.
func (j *judgement) lived() {
	if j.h.unlived != "" {
		return
	}
	var events []accessor.Event
	for i := range j.h.events {
		switch e := &j.h.events[i]; e.kind {
		case audit.Reset:
			events = nil
		case audit.Happen:
			events = append(events, e.events...)
		}
	}
	first, ok := j.r.lives[j.h.table]
	if !ok {
		j.r.lives[j.h.table] = lifeOf{j.h.lane, events}
		return
	}
	for i := range min(len(events), len(first.events)) {
		if events[i] != first.events[i] {
			j.broken(&Violation{Kind: Unequal, Text: fmt.Sprintf("event %d of the table's lifecycle is %s here, and %s in lane %d",
				i, accessor.FormatEvents(events[i]), accessor.FormatEvents(first.events[i]), first.lane)})
			return
		}
	}
}

// takes looks at every push that the lane took: each was sent, once, and in its
// worker's order.
func (j *judgement) takes() {
	last := map[client]uint64{}
	for i := range j.h.events {
		e := &j.h.events[i]
		for _, t := range e.pushes {
			id := j.r.idOf(&t)
			p := j.h.pushes[id]
			if p == nil {
				p = &push{pushID: id, worker: t.Worker, clock: t.Clock}
				j.h.pushes[id] = p
				if src := j.r.workers[id.client]; src != nil && (src.closed || t.Seq < j.h.newest[id.client]) && src.end == "" {
					j.broken(&Violation{Kind: Invented, Push: &PushRef{int(t.Worker), t.Clock, t.Seq, e.version},
						Text: fmt.Sprintf("version %d has %s, which its worker did not send", e.version, p.ref())})
				}
			}
			switch {
			case p.taken:
				j.broken(&Violation{Kind: Doubled, Push: p.ref(), Text: fmt.Sprintf("%s is in version %d, and again in version %d", p.ref(), p.version, e.version)})
				continue
			case p.clock != t.Clock:
				j.broken(&Violation{Kind: Reordered, Push: p.ref(), Text: fmt.Sprintf("%s was taken as one of step %d", p.ref(), t.Clock)})
			case t.Seq <= last[id.client]:
				j.broken(&Violation{Kind: Reordered, Push: p.ref(), Text: fmt.Sprintf("%s is in version %d, behind push %d of the same worker", p.ref(), e.version, last[id.client])})
			}
			p.taken, p.worker, p.version, p.leftOut = true, t.Worker, e.version, e.flags&audit.LeftOut != 0
			last[id.client] = max(last[id.client], t.Seq)
		}
	}
}

// sortedPushes is all pushes, by worker and sequence.
func (h *history) sortedPushes() []*push {
	all := make([]*push, 0, len(h.pushes))
	for _, p := range h.pushes {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *push) int {
		switch {
		case a.worker != b.worker:
			return int(int64(a.worker) - int64(b.worker))
		case a.clock != b.clock:
			if a.clock < b.clock {
				return -1
			}
			return 1
		case a.seq < b.seq:
			return -1
		case a.seq > b.seq:
			return 1
		}
		return 0
	})
	return all
}

// lost looks for acknowledged pushes that the lane does not have.
func (j *judgement) lost() {
	all := j.h.sortedPushes()
	taken := map[numbered]bool{}
	for _, p := range all {
		if p.taken {
			taken[numbered{p.worker, p.seq}] = true
		}
	}
	j.steps = map[uint32]*workerSteps{}
	for _, p := range all {
		if j.r.out.Pushes++; p.sent == nil { // that it was sent is not recorded
			j.r.out.Pushes--
			j.r.out.Unjudged++
		}
		switch {
		case !p.taken && p.again && taken[numbered{p.worker, p.seq}]: // from the process that had the worker's number before
			continue
		case !p.taken && p.acked && j.h.whole && j.mustHave(p):
			j.broken(&Violation{Kind: Lost, Push: p.ref(), Text: fmt.Sprintf("%s was acknowledged, and none of the lane's %d versions has it", p.ref(), j.h.end())})
			continue
		case !p.taken && p.acked: // the record ends before
			j.r.out.Pushes--
			j.r.out.Unjudged++
			continue
		case !p.taken: // nobody has to have seen it
			continue
		}
		s := j.steps[p.worker]
		if s == nil {
			s = &workerSteps{}
			j.steps[p.worker] = s
		}
		s.add(p)
	}
}

// mustHave says whether the versions that are recorded must have an acknowledged push.
// An answer that names the version with it is enough. One that names none says that
// the push counts, and in bsp not that its step is whole: replicas acknowledge what all
// of them have, and hold it until the other workers' pushes are there.
func (j *judgement) mustHave(p *push) bool {
	switch {
	case p.told > 0:
		return j.h.closed || p.told <= j.h.end()
	case j.r.head.StalenessOf(j.h.table) == 0:
		return p.clock < j.wholeUpTo()
	}
	return j.h.closed && !j.r.head.Open || p.seq < j.newestTaken()[p.client]
}

// wholeUpTo is the number of steps that the recorded versions have in whole: of a step
// that has a version, or that a pull which sees all below its own has been answered
// behind. In a lane that ended as it should it is also what all workers have been
// told that it knows of.
func (j *judgement) wholeUpTo() uint64 {
	if j.whole != nil {
		return *j.whole
	}
	n, end := uint64(0), j.h.end()
	for i := range j.h.events {
		for k := range j.h.events[i].pushes {
			n = max(n, j.h.events[i].pushes[k].Clock+1)
		}
	}
	for _, p := range j.h.pulls {
		if !p.look() && !p.kept && p.version <= end {
			n = max(n, p.clock)
		}
	}
	if j.h.closed && !j.r.head.Open {
		n = max(n, j.r.ticked(j.h.lane))
	}
	j.whole = &n
	return n
}

// ticked is the number of steps that a lane has told all workers to be over for them.
func (r *run) ticked(lane uint32) uint64 {
	by := make([]uint64, r.head.Workers)
	for k, h := range r.tables {
		if k.lane != lane {
			continue
		}
		for _, p := range h.pushes {
			if p.acked && p.flags&audit.Tick != 0 && int(p.worker) < len(by) {
				by[p.worker] = max(by[p.worker], p.clock+1)
			}
		}
	}
	if len(by) == 0 {
		return 0
	}
	return slices.Min(by)
}

// newestTaken is each client's last push that the lane took.
func (j *judgement) newestTaken() map[client]uint64 {
	if j.newest == nil {
		j.newest = map[client]uint64{}
		for id, p := range j.h.pushes {
			if p.taken {
				j.newest[id.client] = max(j.newest[id.client], id.seq)
			}
		}
	}
	return j.newest
}

// numbered is a push of a worker, whichever process sent it: who takes a number over
// goes on with its sequence.
type numbered struct {
	worker uint32
	seq    uint64
}

// workerSteps is a worker's pushes that were taken, by step.
type workerSteps struct {
	pushes []*push
	most   []uint64 // the version that has all up to this one
}

func (s *workerSteps) add(p *push) {
	v := p.version
	if n := len(s.most); n > 0 {
		v = max(v, s.most[n-1])
	}
	s.pushes, s.most = append(s.pushes, p), append(s.most, v)
}

// below is how many of the pushes are of steps before one.
func (s *workerSteps) below(step uint64) int {
	n, _ := slices.BinarySearchFunc(s.pushes, step, func(p *push, step uint64) int {
		if p.clock < step {
			return -1
		}
		return 1
	})
	return n
}

// lacking is a push of a step below one that a version has not.
func (s *workerSteps) lacking(step, version uint64) *push {
	n := s.below(step)
	if n == 0 || s.most[n-1] <= version {
		return nil
	}
	for _, p := range s.pushes[:n] {
		if p.version > version {
			return p
		}
	}
	return nil
}

// early is a push of a step, or a later one, that a version has.
func (s *workerSteps) early(step, version uint64) *push {
	for _, p := range s.pushes[s.below(step):] {
		if p.version <= version {
			return p
		}
		if p.clock > step+1 {
			break // versions of later steps are later ones
		}
	}
	return nil
}

// wholeSteps: a version of a BSP lane is one step of all workers, in their order.
func (j *judgement) wholeSteps() {
	if j.r.promiseOf(j.h.table) != 0 {
		return
	}
	step, some := uint64(0), false
	for i := range j.h.events {
		e := &j.h.events[i]
		if e.kind != audit.Take || len(e.pushes) == 0 {
			continue
		}
		for k := range e.pushes {
			p := &e.pushes[k]
			switch ref := (&PushRef{int(p.Worker), p.Clock, p.Seq, e.version}); {
			case p.Clock != e.pushes[0].Clock:
				j.broken(&Violation{Kind: Partial, Push: ref, Text: fmt.Sprintf("version %d has pushes of step %d and %s", e.version, e.pushes[0].Clock, ref)})
			case k > 0 && p.Worker < e.pushes[k-1].Worker:
				j.broken(&Violation{Kind: Partial, Push: ref, Text: fmt.Sprintf("version %d has %s behind worker %d's: the sum is not that of the tree", e.version, ref, e.pushes[k-1].Worker)})
			case k == 0 && some && p.Clock <= step:
				j.broken(&Violation{Kind: Partial, Push: ref, Text: fmt.Sprintf("version %d has %s, though step %d was over", e.version, ref, step)})
			default:
				continue
			}
			break
		}
		step, some = max(step, e.pushes[0].Clock), true
	}
}

// pulls looks at the version that each answer names.
func (j *judgement) pulls() {
	versions := map[uint64]bool{0: true}
	for i := range j.h.events {
		versions[j.h.events[i].version] = true
	}
	for _, l := range j.h.logs { // a record may begin late, with rows that it was given
		versions[l.first(j.h)] = true
	}
	j.session()
	for _, p := range j.h.pulls {
		switch {
		case p.version > j.h.end() && !(j.h.whole && j.h.closed):
			j.r.out.Unjudged++
			continue
		case !versions[p.version] && (j.h.whole || p.version <= j.h.end()):
			j.r.out.Pulls++
			p.right = true // nothing to compare with
			j.broken(&Violation{Kind: NoVersion, Pull: p.ref(), Text: fmt.Sprintf("%s was answered with version %d, which the lane never had", p.ref(), p.version)})
			continue
		}
		j.r.out.Pulls++
		if !p.look() {
			j.clocks(p)
		}
	}
}

// clocks: what a pull of a step must and must not see.
func (j *judgement) clocks(p *pull) {
	if p.kept {
		if most := uint64(j.r.workers[p.client].Header.Worker.Kept); p.since > p.clock || p.clock-p.since > most {
			j.broken(&Violation{Kind: Old, Pull: p.ref(), Text: fmt.Sprintf("%s was answered with values that the worker had kept from a pull of step %d: at most %d steps are allowed", p.ref(), p.since, most)})
			return
		}
	}
	s, step := j.r.promiseOf(j.h.table), p.asOf()
	if s < 0 {
		return
	}
	for _, w := range sortedWorkers(j.steps) {
		of := j.steps[w]
		if step >= uint64(s) {
			if lack := of.lacking(step-uint64(s), p.version); lack != nil {
				j.broken(&Violation{Kind: TooEarly, Pull: p.ref(), Push: lack.ref(),
					Text: fmt.Sprintf("%s was answered with version %d, but %s must be in it (%s) and is in version %d", p.ref(), p.version, lack.ref(), ModeOf(s), lack.version)})
				return
			}
		}
		if s == 0 {
			if early := of.early(step, p.version); early != nil {
				j.broken(&Violation{Kind: TooNew, Pull: p.ref(), Push: early.ref(),
					Text: fmt.Sprintf("%s was answered with version %d, which has %s already", p.ref(), p.version, early.ref())})
				return
			}
		}
	}
}

func sortedWorkers[V any](m map[uint32]V) []uint32 {
	var all []uint32
	for w := range m {
		all = append(all, w)
	}
	slices.Sort(all)
	return all
}

// session: a worker sees its own acknowledged pushes, and never an older version
// than before.
func (j *judgement) session() {
	byClient := map[client][]*pull{}
	for _, p := range j.h.pulls {
		if p.kept { // it may be older, within its bound
			continue
		}
		byClient[p.client] = append(byClient[p.client], p)
	}
	acked := map[client][]*push{}
	for _, p := range j.h.pushes {
		if p.taken && p.acked && p.done > 0 {
			acked[p.client] = append(acked[p.client], p)
		}
	}
	for who, pulls := range byClient {
		own := acked[who]
		slices.SortFunc(own, func(a, b *push) int { return a.done - b.done })
		bySeen := slices.Clone(pulls)
		slices.SortFunc(bySeen, func(a, b *pull) int { return a.seen - b.seen })
		slices.SortStableFunc(pulls, func(a, b *pull) int { return a.asked - b.asked })
		var newest *push
		var before *pull
		nextOwn, nextSeen := 0, 0
		for _, p := range pulls {
			for ; nextOwn < len(own) && own[nextOwn].done < p.asked; nextOwn++ {
				if newest == nil || own[nextOwn].version > newest.version {
					newest = own[nextOwn]
				}
			}
			for ; nextSeen < len(bySeen) && bySeen[nextSeen].seen < p.asked; nextSeen++ {
				if before == nil || bySeen[nextSeen].version > before.version {
					before = bySeen[nextSeen]
				}
			}
			switch {
			case newest != nil && newest.version > p.version:
				j.broken(&Violation{Kind: Forgotten, Pull: p.ref(), Push: newest.ref(),
					Text: fmt.Sprintf("%s was answered with version %d, but %s, of version %d, had been acknowledged before it was asked", p.ref(), p.version, newest.ref(), newest.version)})
			case before != nil && before.version > p.version:
				j.broken(&Violation{Kind: Backward, Pull: p.ref(),
					Text: fmt.Sprintf("%s was answered with version %d, but %s before it with version %d", p.ref(), p.version, before.ref(), before.version)})
			}
		}
	}
}
