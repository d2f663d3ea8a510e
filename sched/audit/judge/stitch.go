package judge

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"psrt/sched/audit"
)

// step is how many versions a Take makes: one for each push, and for the dense
// vector one in all.
func (h *history) step(e *event) uint64 {
	switch {
	case e.kind != audit.Take || e.flags&audit.LeftOut != 0:
		return 0
	case h.table == audit.DenseTable:
		return 1
	}
	return uint64(len(e.pushes))
}

// first is the version before a log's events.
func (l *log) first(h *history) uint64 {
	if len(l.events) == 0 {
		return 0
	}
	return l.events[0].version - h.step(&l.events[0])
}

func (l *log) last() uint64 {
	if len(l.events) == 0 {
		return 0
	}
	return l.events[len(l.events)-1].version
}

// cut appends a log's pieces without a gap: a replica that was cut out and came
// back has rows that it did not make.
func (l *log) cut(h *history, to []*log) []*log {
	from := 0
	for i := range l.events {
		if i > from && l.events[i].version != l.events[i-1].version+h.step(&l.events[i]) {
			to, from = append(to, &log{l.file, l.events[from:i]}), i
		}
	}
	if from < len(l.events) {
		to = append(to, &log{l.file, l.events[from:]})
	}
	return to
}

// stitch makes one history of the records of one table in one lane. Replicas do
// the same ops in the same order, so where two records overlap they are equal.
func (h *history) stitch(j *judgement) {
	h.whole = true
	var logs []*log
	for _, l := range h.logs {
		logs = l.cut(h, logs)
	}
	slices.SortStableFunc(logs, func(a, b *log) int {
		return cmp.Or(cmp.Compare(a.first(h), b.first(h)), cmp.Compare(b.last(), a.last()))
	})
	var at uint64 // the version so far
	var last *log // whose events came last
	takes := map[uint64]int{}
	lived := uint64(0) // events of its lifecycle
	for _, l := range logs {
		from := 0
		if last != nil {
			for from < len(l.events) && l.events[from].version <= at {
				e := &l.events[from]
				if e.kind == audit.Happen && e.version == at && e.lived > lived { // the other did not live to see it
					break
				}
				if i, ok := takes[e.version]; ok && h.step(e) > 0 && !slices.Equal(h.events[i].pushes, e.pushes) {
					j.broken(&Violation{Kind: Unequal, Text: fmt.Sprintf("version %d is %s in %s, and %s in %s: replicas went apart, or a server began anew without its rows",
						e.version, names(h.events[i].pushes), j.name(last), names(e.pushes), j.name(l))})
					return
				}
				from++
			}
		}
		for i := from; i < len(l.events); i++ {
			e := l.events[i]
			if n := h.step(&e); e.version != at+n {
				if h.whole {
					h.ends = fmt.Sprintf("the records of lane %d have nothing between versions %d and %d of table %s", h.lane, at, e.version-n, j.table)
				}
				h.whole = false
				return
			}
			switch {
			case e.kind == audit.Reset:
				lived = 0
			case e.kind == audit.Happen && e.lived <= lived:
				continue
			case e.kind == audit.Happen && e.lived-uint64(len(e.events)) > lived:
				h.unlived = fmt.Sprintf("values of table %s in lane %d are not compared: what happened to its rows before version %d is not all recorded", j.table, h.lane, e.version)
				lived = e.lived
			case e.kind == audit.Happen:
				e.events = e.events[lived+uint64(len(e.events))-e.lived:]
				lived = e.lived
			}
			if at = e.version; h.step(&e) > 0 {
				takes[at] = len(h.events)
			}
			h.events = append(h.events, e)
		}
		last = l
	}
	for _, l := range h.logs {
		if f := j.r.files[l.file]; f.closed && (last == nil || l.file == last.file) {
			h.closed = true
		}
		if end := j.r.files[l.file].end; end != "" && (len(h.logs) < 2 || last == nil || l.file == last.file) {
			h.whole, h.ends = false, fmt.Sprintf("%s: %s", filepath.Base(j.r.files[l.file].Path()), end)
		}
	}
}

func (j *judgement) name(l *log) string { return filepath.Base(j.r.files[l.file].Path()) }

// names lists some pushes.
func names(all []audit.Push) string {
	s := ""
	for i, p := range all {
		if i == 4 {
			return fmt.Sprintf("%s and %d more", s, len(all)-i)
		}
		if i > 0 {
			s += ", "
		}
		s += fmt.Sprintf("push %d of worker %d", p.Seq, p.Worker)
	}
	return s
}
