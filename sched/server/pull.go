package server

import (
	"slices"

	"psrt/rdma"
	"psrt/rdma/mem"
	"psrt/sched/psmsg"
)

// locateSparse finds a sparse request's keys and gradients: behind the header
// (where they came with it or, written from where they lay, ahead of it), in
// the worker's mapped memory, or to be fetched into staging.
func (l *lane) locateSparse(r *request, inline []byte) {
	if r.Kind == psmsg.KindPush {
		r.s.enqueuePush(r)
	}
	t := l.tables[r.Table]
	if t == nil {
		l.refuse(r, psmsg.CodeNoTable)
		return
	}
	rows := uint64(r.Rows)
	width := t.spec.Dim
	if r.Kind == psmsg.KindPush {
		width = t.spec.PushFloats()
	}
	keyBytes, valueBytes := rows*8, rows*uint64(width)*4
	wantKeys := r.Flags&psmsg.FlagTicket == 0
	if r.Kind == psmsg.KindAnnounce {
		valueBytes = 0
	}
	if r.Flags&psmsg.FlagPacked != 0 {
		valueBytes = packedBytes(r, &t.spec)
	}
	if r.Values.Len != valueBytes || r.Values.Addr%4 != 0 || r.Keys.Addr%8 != 0 || r.Kind != psmsg.KindPush && !wantKeys {
		l.refuse(r, psmsg.CodeBadRequest)
		return
	}
	if r.Kind == psmsg.KindPull {
		valueBytes = 0 // they travel the other way
	}
	inSlot := uint64(0)
	if wantKeys && r.Flags&psmsg.FlagInlineKeys != 0 {
		inSlot += keyBytes
	}
	if r.Flags&psmsg.FlagInlineGrads != 0 {
		inSlot += valueBytes
	}
	if inSlot > uint64(len(inline)) {
		l.refuse(r, psmsg.CodeBadRequest)
		return
	}
	r.landed(int(inSlot), 0)
	var fetch []byte // staging: keys first, then gradients
	need := uint64(0)
	if !r.s.mapped {
		if wantKeys && r.Flags&psmsg.FlagInlineKeys == 0 {
			need += keyBytes
		}
		if r.Flags&psmsg.FlagInlineGrads == 0 {
			need += valueBytes
		}
		if need > 0 {
			var err error
			if fetch, err = r.stage.bytes(r.s.domain, l.cfg.Node, int(need)); err != nil {
				l.refuse(r, psmsg.CodeNoMemory)
				return
			}
		}
	}
	ok := true
	var b []byte
	if wantKeys {
		if b, ok = l.part(r, r.Flags&psmsg.FlagInlineKeys != 0, &inline, &fetch, r.Keys, keyBytes); ok {
			r.keys = mem.Uint64s(b)
		}
	}
	if ok && r.Kind == psmsg.KindPush {
		if b, ok = l.part(r, r.Flags&psmsg.FlagInlineGrads != 0, &inline, &fetch, r.Values, valueBytes); ok {
			r.give(b)
		}
	}
	if !ok {
		l.refuse(r, psmsg.CodeBadRequest)
		return
	}
	l.begin(r)
}

// part finds n bytes of a request's payload, or the place to fetch them to if
// they are neither inline nor mapped. Alignment: regions begin on a page, the
// header's length and keys are multiples of 8, so checking the remote
// addresses is enough.
func (l *lane) part(r *request, isInline bool, inline, fetch *[]byte, remote rdma.RemoteRange, n uint64) ([]byte, bool) {
	remote.Len = n
	switch {
	case n == 0:
		return nil, true
	case isInline:
		b := (*inline)[:n]
		*inline = (*inline)[n:]
		return b, true
	case r.s.mapped:
		b, code := r.s.lend(remote)
		return b, code == psmsg.CodeOK
	default:
		b := (*fetch)[:n]
		*fetch = (*fetch)[n:]
		r.fetch.add(b, remote)
		return b, true
	}
}

// refuse answers a request that makes no sense.
func (l *lane) refuse(r *request, code psmsg.Code) {
	if r.Kind == psmsg.KindPush || r.Kind == psmsg.KindPushDense {
		r.s.removePush(r)
	}
	l.reply(r, code, 0, 0, 0)
}

// pull answers a sparse pull when its rows are there.
func (l *lane) pull(r *request) {
	l.storage.note(r)
	if l.find(r, l.creates(r)) {
		l.answerPull(r)
	}
}

// creates says whether a pull makes the rows that are not there.
func (l *lane) creates(r *request) bool {
	return r.Flags&psmsg.FlagCreate != 0 && l.tables[r.Table].spec.CreatesOnPull() && l.chain == nil
}

// answerPull answers a pull whose lookup has ended.
func (l *lane) answerPull(r *request) {
	t := l.tables[r.Table]
	gathered := r.look.Gathered
	rows, created, err := r.takeFound()
	if err != nil {
		l.putRows(rows)
		if l.deviceLost(t) {
			r.s.broken = true
			return
		}
		l.reply(r, l.failed(t, err), 0, t.version, 0)
		return
	}
	if r.Flags&psmsg.FlagNoValues != 0 {
		l.giveBack(t, rows)
		l.reply(r, psmsg.CodeOK, 0, l.versionFor(r, r.Table), created)
		return
	}
	id := uint64(0)
	var keys []uint64
	switch { // they may be gone when the values are sent
	case l.chain != nil:
		id = l.chain.remember(r)
	case l.was.on && l.creates(r):
		keys = slices.Clone(r.keys)
	}
	code := l.sendValues(r, t, rows, gathered)
	if l.deviceLost(t) { // what was sent are no values
		l.giveBack(t, rows)
		r.s.broken = true
		return
	}
	if code != psmsg.CodeOK {
		l.giveBack(t, rows)
		l.reply(r, code, 0, t.version, 0)
		return
	}
	l.stats.pulls++
	l.noteStaleness(r)
	if l.creates(r) {
		id = l.putTicket(r.s, r.Table, rows, keys)
	} else {
		l.giveBack(t, rows)
	}
	l.reply(r, psmsg.CodeOK, id, l.versionFor(r, r.Table), created)
}

// sendValues gathers rows into the worker's memory, where they are not there already.
func (l *lane) sendValues(r *request, t *tableState, rows []uint32, gathered bool) psmsg.Code {
	if len(rows) == 0 {
		return psmsg.CodeOK
	}
	l.stats.copied.Gathered += r.Values.Len
	if l.chain != nil {
		l.chain.absent(r, t, rows)
	}
	back := l.backRows(r)
	if r.s.mapped {
		b, code := r.s.enter(r.Values)
		if code != psmsg.CodeOK {
			return code
		}
		if !gathered {
			l.gather(t, rows, b)
		}
		l.putBack(t, back, b)
		r.s.ep.Leave()
		return psmsg.CodeOK
	}
	// The keys may lie in the same staging area; they are not needed any more.
	b, err := r.stage.bytes(r.s.domain, l.cfg.Node, int(r.Values.Len))
	if err != nil {
		return psmsg.CodeNoMemory
	}
	l.gather(t, rows, b)
	l.putBack(t, back, b)
	r.s.write(b, r.Values, r.slot, false)
	return psmsg.CodeOK
}
