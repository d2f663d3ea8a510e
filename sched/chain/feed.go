package chain

import (
	"cmp"
	"maps"
	"slices"
)

// feed is a tail's copying of the state to a joiner: the rest of the state first,
// then rows range by range in the order of their ids, and between them every op
// that was committed meanwhile. Items are in one order, so the joiner knows for
// each op which rows have come, and does it to those alone: the others come later
// and have it in them.
type feed struct {
	to       Node
	began    bool
	inStep   bool    // all is copied: ops go as to a successor, and are committed when the joiner has them
	items    []*Item // not acknowledged
	first    uint64  // number of items[0]; from 1
	sent     uint64  // last one sent
	bytes    int     // of items
	rows     int     // likewise, of rows alone
	cursor   uint64
	patience patience
	still    int  // ticks in which the joiner took nothing of what there was
	whole    bool // the joiner has said that it has all
}

func (f *feed) add(it *Item) {
	it.itemBytes = 64 + len(it.Bytes) + len(it.Note) + 32*len(it.Clients)
	if it.Op != nil {
		it.itemBytes += len(it.Op.Body)
	}
	f.items = append(f.items, it)
	f.bytes += it.itemBytes
	if it.Kind == Rows {
		f.rows += it.itemBytes
	}
}

// room says whether more rows may be taken up. Ops have half of the room for themselves;
// but where they fill it, rows keep their share of what is on the way, or a group that
// pushes all the time would never have its joiner.
func (f *feed) room(m *Machine) bool {
	if f.rows < (f.bytes-f.rows)/(CopyShare-1) {
		return true
	}
	return f.bytes < m.opt.FeedBytes/2 && (m.pace.Rows == 0 || f.rows < m.pace.Rows)
}

// full says whether ops have to wait.
func (f *feed) full(m *Machine) bool {
	return f.bytes >= m.opt.FeedBytes || m.pace.Feed > 0 && f.bytes >= m.pace.Feed
}

// fill takes up what there is room for, and sends it.
func (f *feed) fill(m *Machine) {
	if !f.began {
		f.began, f.first = true, 1
		clients := slices.SortedFunc(maps.Values(m.clients), func(a, b Client) int { return cmp.Compare(a.Worker, b.Worker) })
		f.add(&Item{Kind: First, Seq: m.committed, Clients: clients, Bytes: m.state.Rest()})
	}
	for !f.inStep && f.room(m) {
		budget := min(m.opt.ChunkBytes, m.opt.FeedBytes/4)
		if m.pace.Item > 0 {
			budget = min(budget, m.pace.Item)
		}
		rows, next, last := m.state.Rows(f.cursor, budget)
		if len(rows) > 0 {
			f.add(&Item{Kind: Rows, Bytes: rows})
		}
		f.cursor = next
		if last {
			f.add(&Item{Kind: Last, Seq: m.committed, Bytes: m.state.Past()})
			f.inStep = true
			m.next = link{known: true, have: m.committed, sent: m.committed}
		} else if len(rows) == 0 {
			break
		}
	}
	for ; f.sent+1 < f.first+uint64(len(f.items)); f.sent++ {
		m.send(Message{Kind: Feed, To: f.to, Seq: f.sent + 1, Item: f.items[f.sent+1-f.first]})
	}
}

func (f *feed) tick(m *Machine) {
	if f.whole {
		f.say(m)
		return
	}
	// Rows that the state does not give, all else acknowledged, are not the joiner's fault.
	if !f.began || len(f.items) > 0 {
		if f.still++; f.still >= m.opt.StuckTicks {
			m.report(Report{Kind: Stuck, Epoch: m.cfg.Epoch, Nodes: []Node{f.to}})
		}
	}
	if !f.began {
		return
	}
	if len(f.items) == 0 { // it is the state that gives nothing
		f.patience.rest()
		return
	}
	if f.patience.due(m.opt.ResendTicks) {
		f.sent = f.first - 1
	}
}

// acked lets items go; the joiner has all up to seq.
func (f *feed) acked(m *Machine, seq uint64) {
	if !f.began {
		return
	}
	more := false
	for len(f.items) > 0 && f.first <= seq {
		f.bytes -= f.items[0].itemBytes
		if f.items[0].Kind == Rows {
			f.rows -= f.items[0].itemBytes
		}
		f.items[0] = nil
		f.items = f.items[1:]
		f.first++
		more = true
	}
	if more {
		f.patience.progress()
		f.still = 0
	}
	f.sent = max(f.sent, f.first-1)
	if f.inStep && len(f.items) == 0 && !f.whole {
		f.whole = true
		f.say(m)
	}
}

// say reports that the joiner may be relied on: what it lacks is not acknowledged.
func (f *feed) say(m *Machine) {
	m.report(Report{Kind: Caught, Epoch: m.cfg.Epoch, Nodes: []Node{f.to}})
}

// join is a node that catches up.
type join struct {
	got   uint64 // items
	whole bool
}

func (j *join) receive(m *Machine, msg *Message) {
	if msg.Item != nil && msg.Seq == j.got+1 {
		j.got++
		switch it := msg.Item; it.Kind {
		case First:
			m.committed = it.Seq
			for _, c := range it.Clients {
				m.clients[c.Worker] = c
			}
			m.state.Begin(it.Bytes)
		case Rows:
			m.state.Install(it.Bytes)
		case Later:
			m.committed = it.Op.Seq
			count(m.clients, &it.Op.Header)
			m.state.TakePart(it.Op, it.Note)
		case Last:
			m.state.End(it.Bytes)
			j.whole = true
		}
	}
	m.send(Message{Kind: Fed, To: msg.From, Seq: j.got})
}

// take does ops as they come whole: behind a joiner in step there is nobody.
func (j *join) take(m *Machine) {
	for end := m.ripe(m.last()); m.committed < end; {
		op := m.log[0]
		m.log, m.logBytes = m.log[1:], m.logBytes-op.Size
		m.committed++
		count(m.clients, &op.Header)
		m.state.Take(op, false)
	}
}
