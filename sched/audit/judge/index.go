package judge

import (
	"errors"
	"fmt"
	"path/filepath"

	"psrt/sched/audit"
	"psrt/tiers/accessor"
)

// pushID names a push to one lane.
type pushID struct {
	client
	seq uint64
}

// push is one worker's push to one lane.
type push struct {
	pushID
	worker  uint32 // the number that its client had when the lane took it, or first
	clock   uint64
	flags   audit.Flags
	sent    []place // its gradients; nil: nobody recorded that it was sent
	acked   bool
	again   bool   // the lane answered that it had it
	told    uint64 // the version that the lane answered with; 0: it named none
	done    int    // when it was answered, by the worker's count of records
	refused uint32

	taken   bool
	leftOut bool
	version uint64 // of the table with it
}

func (p *push) ref() *PushRef {
	return &PushRef{Worker: int(p.worker), Step: p.clock, Seq: p.seq, Version: p.version}
}

// pull is one lane's answer to a pull.
type pull struct {
	client
	worker  uint32 // the number that its client had first
	call    uint64
	clock   uint64
	flags   audit.Flags
	version uint64
	asked   int // when, by the worker's count of records
	seen    int
	values  []place
	kept    bool // by the worker itself, from its pull at an earlier clock:
	since   uint64
	best    *mismatch // of the states that the version had; see replay
	right   bool
}

// asOf is the step whose pull brought the values.
func (p *pull) asOf() uint64 {
	if p.kept {
		return p.since
	}
	return p.clock
}

func (p *pull) look() bool { return p.flags&audit.AnyClock != 0 }

func (p *pull) ref() *PullRef {
	return &PullRef{Worker: int(p.worker), Step: p.clock, Call: p.call, Version: p.version, Look: p.look()}
}

// event is what a lane did to a table.
type event struct {
	kind    audit.Kind // Take, Load, Reset or Happen
	flags   audit.Flags
	version uint64
	pushes  []audit.Push
	rows    place  // Load
	lived   uint64 // Happen: the table's events with these
	events  []accessor.Event
}

// log is one file's events of one table.
type log struct {
	file   int
	events []event
}

// history is all that is known of one table in one lane.
type history struct {
	tableKey
	head   *audit.LaneHeader // that has the lane's dense blocks
	pushes map[pushID]*push
	newest map[client]uint64 // sequence of the last push that the worker recorded
	pulls  []*pull
	logs   []*log

	events  []event // of all logs, stitched
	whole   bool    // events are all that happened
	ends    string  // why not
	unlived string  // why values cannot be compared: some of what happened to all rows is not recorded
	closed  bool    // and nothing can be missing behind them
}

func (r *run) history(lane, table uint32) *history {
	k := tableKey{lane, table}
	h := r.tables[k]
	if h == nil {
		h = &history{tableKey: k, pushes: map[pushID]*push{}, newest: map[client]uint64{}}
		r.tables[k] = h
	}
	return h
}

// index takes in one file.
func (r *run) index(i int) error {
	if r.files[i].Header.Worker != nil {
		return r.indexWorker(i)
	}
	return r.indexLane(i)
}

// who is how a client is known to the whole run. Where workers come and go, one that was
// away for long comes back under another number, and its sequence goes on.
func (r *run) who(worker uint32, of uint64) client {
	if r.head.Open {
		worker = 0
	}
	return client{worker, of}
}

// idOf names a push that a lane has taken.
func (r *run) idOf(t *audit.Push) pushID { return pushID{r.who(t.Worker, t.Client), t.Seq} }

func (r *run) indexWorker(i int) error {
	head := r.files[i].Header.Worker
	who, worker := r.who(uint32(head.Worker), head.Client), uint32(head.Worker)
	r.workers[who] = r.files[i]
	asked := map[uint64]int{}
	var lastPull *pull
	var lastPush *push
	count := 0
	return r.each(i, func(at place, rec *audit.Record) {
		count++
		for _, k := range rec.Keys {
			if rec.Table != audit.DenseTable {
				r.keys[k] = struct{}{}
			}
		}
		if rec.Kind == audit.Ask {
			asked[rec.Call] = count
			return
		}
		h := r.history(rec.Lane, rec.Table)
		switch rec.Kind {
		case audit.Seen:
			if n := len(h.pulls); n > 0 && h.pulls[n-1] == lastPull && lastPull.call == rec.Call { // the rest of it
				lastPull.values = append(lastPull.values, at)
				return
			}
			lastPull = &pull{client: who, worker: worker, call: rec.Call, clock: rec.Clock, flags: rec.Flags, version: rec.Version, asked: asked[rec.Call], seen: count, values: []place{at}}
			h.pulls = append(h.pulls, lastPull)
		case audit.Kept:
			lastPull = nil
			h.pulls = append(h.pulls, &pull{client: who, worker: worker, call: rec.Call, clock: rec.Clock, flags: rec.Flags, version: rec.Version, asked: count, seen: count,
				values: []place{at}, kept: true, since: rec.Since})
		case audit.Send:
			id := pushID{who, rec.Seq}
			if p := h.pushes[id]; p != nil && p == lastPush {
				p.sent = append(p.sent, at)
				return
			}
			lastPush = &push{pushID: id, worker: worker, clock: rec.Clock, flags: rec.Flags, sent: []place{at}}
			h.pushes[id], h.newest[who] = lastPush, max(h.newest[who], rec.Seq)
			r.out.Steps = max(r.out.Steps, rec.Clock+1)
		case audit.Done:
			if p := h.pushes[pushID{who, rec.Seq}]; p != nil {
				p.acked, p.again, p.told, p.done, p.refused = p.acked || rec.Code <= codeDuplicate, rec.Code == codeDuplicate, max(p.told, rec.Version), count, rec.Refused
			}
		}
	})
}

// codeDuplicate is psmsg's: it and CodeOK before it say that a push counts.
const codeDuplicate = 1

func (r *run) indexLane(i int) error {
	head := r.files[i].Header.Lane
	logs := map[uint32]*log{}
	for _, t := range append(tableIDs(head), audit.DenseTable) {
		if t == audit.DenseTable && len(head.Dense.Blocks) == 0 {
			continue
		}
		h := r.history(uint32(head.Lane), t)
		h.head = head
		logs[t] = &log{file: i}
		h.logs = append(h.logs, logs[t])
	}
	var bad error
	err := r.each(i, func(at place, rec *audit.Record) {
		l := logs[rec.Table]
		if l == nil { // of a table that was made later, or ticks to a lane without dense blocks
			l = &log{file: i}
			logs[rec.Table] = l
			h := r.history(uint32(head.Lane), rec.Table)
			h.head = head
			h.logs = append(h.logs, l)
		}
		e := event{kind: rec.Kind, flags: rec.Flags, version: rec.Version}
		switch rec.Kind {
		case audit.Take:
			if n := len(l.events); n > 0 {
				if b := &l.events[n-1]; b.kind == audit.Take && b.version == e.version && b.flags == e.flags && e.flags&audit.LeftOut == 0 {
					b.pushes = append(b.pushes, rec.Pushes...)
					return
				}
			}
			e.pushes = append([]audit.Push(nil), rec.Pushes...)
		case audit.Load:
			e.rows = at
		case audit.Reset:
		case audit.Happen:
			var err error
			if e.events, err = accessor.ParseEvents(string(rec.Text)); err == nil && uint64(len(e.events)) > rec.Seq {
				err = fmt.Errorf("%d events of a lifecycle that has had %d", len(e.events), rec.Seq)
			}
			if err != nil {
				bad = &InputError{fmt.Errorf("audit: %s: %w", filepath.Base(r.files[i].Path()), err)}
			}
			e.lived = rec.Seq
		default:
			return
		}
		l.events = append(l.events, e)
	})
	return errors.Join(err, bad)
}

func tableIDs(h *audit.LaneHeader) (ids []uint32) {
	for i := range h.Tables {
		ids = append(ids, h.Tables[i].ID)
	}
	return ids
}
