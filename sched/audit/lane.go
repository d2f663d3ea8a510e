package audit

import (
	"fmt"

	"psrt/tiers/accessor"
)

// Lane is one lane's record: what it did to its rows, in order. Its methods may be
// called on nil.
type Lane struct {
	w      *file
	sample Sample
	rate   float64
	rec    Record
}

// NewLane begins a lane's file. The header's dense blocks get their Init by Block.
func NewLane(cfg Config, h LaneHeader) (*Lane, error) {
	sample, err := NewSample(cfg.Rate)
	if err != nil {
		return nil, err
	}
	l := &Lane{sample: sample, rate: cfg.Rate}
	if l.w, err = cfg.create(fmt.Sprintf("lane%d-server%d", h.Lane, h.Server), &Header{Lane: &h}); err != nil {
		return nil, err // a lane closes what it has, and a record without a file cannot be closed
	}
	return l, nil
}

// NewBlock describes a dense block as it begins.
func (c *Config) NewBlock(index int, rule string, values []float32) Block {
	return Block{Index: index, Floats: len(values), Rule: rule, Init: pick(nil, values, Places(len(values), c.Rate))}
}

// Begin begins the list of pushes of one Take; Add adds to it, Took writes it.
func (l *Lane) Begin() {
	if l != nil {
		l.rec.Pushes = l.rec.Pushes[:0]
	}
}

// Add names a push, in the order of additions.
func (l *Lane) Add(p Push) {
	if l != nil {
		l.rec.Pushes = append(l.rec.Pushes, p)
	}
}

// Took notes that the pushes are in a table, which is version now; left out are
// those that it had before. Call it before they are acknowledged.
func (l *Lane) Took(table uint32, version uint64, flags Flags) {
	if l == nil || len(l.rec.Pushes) == 0 {
		return
	}
	all := l.rec.Pushes
	const most = (MaxRecord - fixedBytes) / pushBytes
	for from := 0; from < len(all); from += most {
		l.w.add(&Record{Kind: Take, Flags: flags, Table: table, Version: version, At: now(), Pushes: all[from:min(len(all), from+most)]})
	}
}

// Emptied notes that a table has no rows any more.
func (l *Lane) Emptied(table uint32, version uint64) {
	if l != nil {
		l.w.add(&Record{Kind: Reset, Table: table, Version: version, At: now()})
	}
}

// mostEvents of one Happen record: each is at most an eviction's 17 letters.
const mostEvents = (MaxRecord - fixedBytes) / 17

// Happened notes events of a table's lifecycle, the newest of so many in all.
func (l *Lane) Happened(table uint32, version uint64, all int, events []accessor.Event) {
	if l == nil {
		return
	}
	for len(events) > 0 {
		n := min(len(events), mostEvents)
		l.w.add(&Record{Kind: Happen, Table: table, Version: version, Seq: uint64(all - len(events) + n), At: now(), Text: []byte(accessor.FormatEvents(events[:n]...))})
		events = events[n:]
	}
}

// Loaded notes rows of a table as a checkpoint has them, with their state.
func (l *Lane) Loaded(table uint32, version uint64, keys []uint64, rows []float32, width int) {
	if l == nil {
		return
	}
	r := Record{Kind: Load, Table: table, Version: version, Width: uint32(width), At: now()}
	for i, k := range keys {
		if !l.sample.Has(k) {
			continue
		}
		if fixedBytes+(8+4*width)*(len(r.Keys)+1) > MaxRecord {
			l.w.add(&r)
			r.Keys, r.Floats = r.Keys[:0], r.Floats[:0]
		}
		r.Keys = append(r.Keys, k)
		r.Floats = append(r.Floats, rows[i*width:(i+1)*width]...)
	}
	if len(r.Keys) > 0 {
		l.w.add(&r)
	}
}

// LoadedBlock notes a dense block likewise. Its state is some floats for each
// element, one such list behind the other, and then some for all.
func (l *Lane) LoadedBlock(block int, version uint64, values, state []float32) {
	if l == nil {
		return
	}
	n := len(values)
	at := Places(n, l.rate)
	out := pick(nil, values, at)
	for len(state) >= n {
		out, state = pick(out, state[:n], at), state[n:]
	}
	out = append(out, state...)
	l.w.add(&Record{Kind: Load, Table: DenseTable, Version: version, Width: uint32(len(out)), At: now(), Keys: []uint64{uint64(block)}, Floats: out})
}

// Err is why the record ended before its lane, nil where it did not.
func (l *Lane) Err() error {
	if l == nil {
		return nil
	}
	return l.w.err
}

// Close ends the record.
func (l *Lane) Close() error {
	if l == nil {
		return nil
	}
	return l.w.close()
}
