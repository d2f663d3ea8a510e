package chain

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// simState is rows of integers under gradients at rate 1: a row is the sum of what
// was pushed to it, and the order in which it came, so that replicas which differ in
// order differ. Row ids are given in order, and used again when a row is dropped. In
// bsp pushes are held until every worker of their step is there, and applied by
// worker.
type simState struct {
	bsp     bool
	workers int
	rows    map[uint64]*simRow
	ids     []uint64 // by id: the key+1, 0 free
	free    []uint32
	step    uint64
	held    []simPush // of step and later, in the order taken
	run     []simPush // of merged ops
	gone    int64     // the sum of rows that were dropped
	upTo    uint64    // ids below it have come, at one that catches up; else all
	was     string    // the rows of the newest step before it
	taken   func(*Op)
}

type simRow struct {
	id       uint32
	sum, mix int64
}

type simPush struct {
	worker uint32
	push   uint64
	rows   []simGrad
}

type simGiven struct {
	key uint64
	id  uint32
}

type simGrad struct {
	key  uint64
	grad int64
}

const all = ^uint64(0)

func newSimState(bsp bool, workers int) *simState {
	return &simState{bsp: bsp, workers: workers, rows: map[uint64]*simRow{}, step: 1, upTo: all}
}

// simBody is what push p of worker w holds for a group: a function of these alone.
// Rate 1 and distinct magnitudes: a push lost or doubled shows in the sums.
func simBody(w uint32, p uint64, g int) []byte {
	h := fnv.New64a()
	fmt.Fprint(h, w, p, g)
	x := h.Sum64()
	n := int(x % 5)
	if x>>8%16 == 0 {
		n = 40
	}
	b := make([]byte, 0, 8+16*n)
	b = binary.LittleEndian.AppendUint64(b, x>>16%97) // the row that an Order drops
	for i := range n {
		b = binary.LittleEndian.AppendUint64(b, (x>>20+uint64(i)*uint64(i+3))%97)
		b = binary.LittleEndian.AppendUint64(b, 1+(x>>9+uint64(i))%1000)
	}
	return b
}

func simGrads(body []byte) (grads []simGrad) {
	for b := body[8:]; len(b) >= 16; b = b[16:] {
		grads = append(grads, simGrad{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))})
	}
	return grads
}

// simKind is what push p is: in asp some drop a row, the first that their body names.
func simKind(bsp bool, p uint64) Kind {
	if !bsp && p%7 == 3 {
		return Order
	}
	return Push
}

const dropped = 1 << 31

// simAmount is a push's part of the sum over all rows.
func simAmount(bsp bool, w uint32, p uint64, g int) (n int64) {
	if simKind(bsp, p) == Order {
		return 0
	}
	for _, r := range simGrads(simBody(w, p, g)) {
		n += r.grad
	}
	return n
}

func (s *simState) Take(op *Op, note bool) []byte {
	if s.taken != nil {
		s.taken(op)
	}
	return s.take(op, nil)
}

// take does an op; born is nil where this state gives new rows their ids.
func (s *simState) take(op *Op, born map[uint64]uint32) (note []byte) {
	var given []simGiven
	if op.Kind == Push {
		p := simPush{op.Worker, op.Push, simGrads(op.Body)}
		for _, r := range p.rows {
			s.ensure(r.key, born, &given)
		}
		if s.bsp {
			s.held = append(s.held, p)
		} else {
			s.run = append(s.run, p)
		}
	}
	if s.bsp {
		s.wholeSteps()
	} else if !op.Merge {
		s.apply(s.run)
		s.run = nil
	}
	if op.Kind == Order {
		key := binary.LittleEndian.Uint64(op.Body)
		id, is := born[key]
		if r := s.rows[key]; r != nil {
			id, is = r.id, true
			s.gone += r.sum
			delete(s.rows, key)
			s.ids[id] = 0
		}
		if is {
			id &^= dropped
			s.free = append(s.free, id)
			given = append(given, simGiven{key, id | dropped})
		}
	}
	for _, k := range given { // in this order
		note = binary.LittleEndian.AppendUint64(note, k.key)
		note = binary.LittleEndian.AppendUint32(note, k.id)
	}
	return binary.LittleEndian.AppendUint64(note, uint64(s.gone))
}

// ensure makes a row. At one that catches up a row that it lacks is either born now,
// which the note says, or comes later.
func (s *simState) ensure(key uint64, born map[uint64]uint32, given *[]simGiven) {
	if s.rows[key] != nil {
		return
	}
	if s.upTo != all {
		if id, ok := born[key]; ok {
			s.put(key, id)
		}
		return
	}
	var id uint32
	if n := len(s.free); n > 0 {
		id, s.free = s.free[n-1], s.free[:n-1]
	} else {
		id = uint32(len(s.ids))
	}
	*given = append(*given, simGiven{key, id})
	s.put(key, id)
}

func (s *simState) put(key uint64, id uint32) *simRow {
	for uint32(len(s.ids)) <= id {
		s.ids = append(s.ids, 0)
	}
	s.ids[id] = key + 1
	r := &simRow{id: id}
	s.rows[key] = r
	return r
}

func (s *simState) wholeSteps() {
	for {
		var due []simPush
		for _, p := range s.held {
			if p.push == s.step {
				due = append(due, p)
			}
		}
		if len(due) < s.workers {
			return
		}
		s.held = slices.DeleteFunc(s.held, func(p simPush) bool { return p.push == s.step })
		slices.SortFunc(due, func(a, b simPush) int { return int(a.worker) - int(b.worker) })
		s.was = s.before(due)
		s.apply(due)
		s.step++
	}
}

// apply adds the sources' gradients by row, and gives each row the sum once.
func (s *simState) apply(due []simPush) {
	sum := map[uint64]int64{}
	for _, p := range due {
		for _, r := range p.rows {
			sum[r.key] += r.grad
		}
	}
	for k, v := range sum {
		if r := s.rows[k]; r != nil { // else it comes later, with this in it
			r.sum += v
			r.mix = r.mix*31 + v
		}
	}
}

// before is what is kept of the rows that a step changes; one that catches up lacks some.
func (s *simState) before(due []simPush) (was string) {
	if s.upTo != all {
		return "unknown"
	}
	for _, p := range due {
		for _, r := range p.rows {
			was += fmt.Sprint(r.key, *s.rows[r.key], " ")
		}
	}
	return was
}

func (s *simState) Past() []byte { return []byte(s.was) }

func (s *simState) End(past []byte) { s.was = string(past) }

func (s *simState) Rest() []byte {
	b := binary.LittleEndian.AppendUint64(nil, s.step)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.gone))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.free)))
	for _, f := range s.free {
		b = binary.LittleEndian.AppendUint32(b, f)
	}
	for _, p := range s.held {
		b = binary.LittleEndian.AppendUint32(b, p.worker)
		b = binary.LittleEndian.AppendUint64(b, p.push)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(p.rows)))
		for _, r := range p.rows {
			b = binary.LittleEndian.AppendUint64(b, r.key)
			b = binary.LittleEndian.AppendUint64(b, uint64(r.grad))
		}
	}
	return b
}

func (s *simState) Begin(b []byte) {
	s.upTo = 0
	s.step = binary.LittleEndian.Uint64(b)
	s.gone = int64(binary.LittleEndian.Uint64(b[8:]))
	n := binary.LittleEndian.Uint32(b[16:])
	b = b[20:]
	for range n {
		s.free = append(s.free, binary.LittleEndian.Uint32(b))
		b = b[4:]
	}
	for len(b) > 0 {
		p := simPush{worker: binary.LittleEndian.Uint32(b), push: binary.LittleEndian.Uint64(b[4:])}
		n := binary.LittleEndian.Uint32(b[12:])
		b = b[16:]
		for range n {
			p.rows = append(p.rows, simGrad{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))})
			b = b[16:]
		}
		s.held = append(s.held, p)
	}
}

func (s *simState) Rows(cursor uint64, budget int) (data []byte, next uint64, last bool) {
	data = binary.LittleEndian.AppendUint64(nil, 0)
	for ; cursor < uint64(len(s.ids)) && len(data) < budget; cursor++ {
		if k := s.ids[cursor]; k != 0 {
			r := s.rows[k-1]
			data = binary.LittleEndian.AppendUint64(data, k-1)
			data = binary.LittleEndian.AppendUint32(data, r.id)
			data = binary.LittleEndian.AppendUint64(data, uint64(r.sum))
			data = binary.LittleEndian.AppendUint64(data, uint64(r.mix))
		}
	}
	last = cursor == uint64(len(s.ids))
	binary.LittleEndian.PutUint64(data, cursor)
	if last {
		binary.LittleEndian.PutUint64(data, all)
	}
	return data, cursor, last
}

func (s *simState) Install(b []byte) {
	s.upTo = binary.LittleEndian.Uint64(b)
	for b = b[8:]; len(b) > 0; b = b[28:] {
		r := s.put(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]))
		r.sum, r.mix = int64(binary.LittleEndian.Uint64(b[12:])), int64(binary.LittleEndian.Uint64(b[20:]))
	}
}

func (s *simState) TakePart(op *Op, note []byte) {
	born := map[uint64]uint32{}
	for ; len(note) > 8; note = note[12:] {
		key, id := binary.LittleEndian.Uint64(note), binary.LittleEndian.Uint32(note[8:])
		if id&dropped != 0 {
			born[key] = id
			continue
		}
		if n := len(s.free); n > 0 && s.free[n-1] == id {
			s.free = s.free[:n-1]
		}
		if uint64(id) < s.upTo {
			born[key] = id
		}
	}
	s.take(op, born)
	s.gone = int64(binary.LittleEndian.Uint64(note))
}

func (s *simState) Clear() {
	*s = simState{bsp: s.bsp, workers: s.workers, rows: map[uint64]*simRow{}, step: 1, upTo: all, taken: s.taken}
}

// text is the whole state, for comparing.
func (s *simState) text() string {
	out := fmt.Sprint("step ", s.step, " free ", s.free, " held ", s.held, " gone ", s.gone, " was ", s.was, "\n")
	for _, k := range slices.Sorted(maps.Keys(s.rows)) {
		out += fmt.Sprint(k, *s.rows[k], "\n")
	}
	return out
}

func (s *simState) sum() int64 {
	n := s.gone
	for _, r := range s.rows {
		n += r.sum
	}
	return n
}
