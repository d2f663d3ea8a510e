package audit

import (
	"fmt"
	"time"
)

// WorkerConfig is a worker's.
type WorkerConfig struct {
	Config
	Worker int
	Client uint64
	Kept   int // how many steps old a kept value may be, 0 for none
	// Blocks are those of the dense vector, in order; Lane is whose each is.
	Blocks []DenseBlock
}

// DenseBlock is a block of the dense vector.
type DenseBlock struct {
	Offset, Len, Lane int
}

// Worker is one worker's record. Its methods, but for Close, may be called on nil.
type Worker struct {
	w      *file
	sample Sample
	rate   float64
	blocks []DenseBlock
	places [][]int // of each block
	calls  uint64
	at     []int32
	rec    Record
	floats []float32
	seen   map[uint64]struct{} // sampled keys of the first table pushed to
}

// maxSeen bounds the keys that Keys gives.
const maxSeen = 64 << 10

// NewWorker begins a worker's file.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	sample, err := NewSample(cfg.Rate)
	if err != nil {
		return nil, err
	}
	w := &Worker{sample: sample, rate: cfg.Rate, blocks: cfg.Blocks, seen: map[uint64]struct{}{}}
	for _, b := range cfg.Blocks {
		w.places = append(w.places, Places(b.Len, cfg.Rate))
	}
	w.w, err = cfg.create(fmt.Sprintf("worker%d", cfg.Worker), &Header{Worker: &WorkerHeader{Worker: cfg.Worker, Client: cfg.Client, Kept: cfg.Kept}})
	return w, err
}

// Ask notes a pull, and gives it a number.
func (w *Worker) Ask(table uint32, clock uint64, flags Flags) (call uint64) {
	if w == nil {
		return 0
	}
	w.calls++
	w.rec = Record{Kind: Ask, Flags: flags, Table: table, Call: w.calls, Clock: clock, At: now(), Keys: w.rec.Keys[:0], Hashes: w.rec.Hashes[:0], Floats: w.rec.Floats[:0]}
	w.w.add(&w.rec)
	return w.calls
}

// Pull is what a lane has answered.
type Pull struct {
	Call    uint64
	Lane    int
	Table   uint32
	Clock   uint64
	Version uint64
	Flags   Flags
}

// begin is a record with nothing in it.
func (w *Worker) begin(r Record) *Record {
	r.At, r.Keys, r.Hashes, r.Floats = now(), w.rec.Keys[:0], w.rec.Hashes[:0], w.rec.Floats[:0]
	w.rec = r
	return &w.rec
}

// Seen notes the values of some keys, width for each.
func (w *Worker) Seen(p Pull, keys []uint64, values []float32, width int) {
	if w == nil {
		return
	}
	r := w.begin(Record{Kind: Seen, Flags: p.Flags, Lane: uint32(p.Lane), Table: p.Table, Call: p.Call, Clock: p.Clock, Version: p.Version, Width: uint32(width)})
	w.at = w.sample.Find(keys, w.at[:0])
	for _, i := range w.at {
		if fixedBytes+16*(len(r.Keys)+1) > MaxRecord { // the rest in a record of its own
			w.w.add(r)
			r.Keys, r.Hashes = r.Keys[:0], r.Hashes[:0]
		}
		r.Keys = append(r.Keys, keys[i])
		r.Hashes = append(r.Hashes, Hash(values[int(i)*width:(int(i)+1)*width]))
	}
	w.w.add(r)
}

// Kept notes values that are not asked for, but were brought by a pull at an earlier
// clock (since), with the version that its answer named.
func (w *Worker) Kept(p Pull, since uint64, key uint64, values []float32) {
	if w == nil || !w.sample.Has(key) {
		return
	}
	r := w.begin(Record{Kind: Kept, Flags: p.Flags, Lane: uint32(p.Lane), Table: p.Table, Call: p.Call, Clock: p.Clock, Version: p.Version, Since: since, Width: uint32(len(values))})
	r.Keys, r.Hashes = append(r.Keys, key), append(r.Hashes, Hash(values))
	w.w.add(r)
}

// SeenDense notes a lane's blocks of the whole vector.
func (w *Worker) SeenDense(p Pull, values []float32) {
	if w == nil {
		return
	}
	r := w.begin(Record{Kind: Seen, Flags: p.Flags, Lane: uint32(p.Lane), Table: DenseTable, Call: p.Call, Clock: p.Clock, Version: p.Version})
	for i, b := range w.blocks {
		if b.Lane != p.Lane {
			continue
		}
		w.floats = pick(w.floats[:0], values[b.Offset:b.Offset+b.Len], w.places[i])
		r.Keys, r.Hashes = append(r.Keys, uint64(i)), append(r.Hashes, Hash(w.floats))
	}
	w.w.add(r)
}

func pick(to, from []float32, places []int) []float32 {
	for _, at := range places {
		to = append(to, from[at])
	}
	return to
}

// Pushed is a push to a lane.
type Pushed struct {
	Lane  int
	Table uint32
	Seq   uint64
	Clock uint64
	Flags Flags
}

// Send notes a push before it is posted: the gradients of some keys, width for
// each. Where they do not fit into one record, those that follow are its rest.
func (w *Worker) Send(p Pushed, keys []uint64, grads []float32, width int) {
	if w == nil {
		return
	}
	r := w.begin(Record{Kind: Send, Flags: p.Flags, Lane: uint32(p.Lane), Table: p.Table, Seq: p.Seq, Clock: p.Clock, Width: uint32(width)})
	w.at = w.sample.Find(keys, w.at[:0])
	for _, i := range w.at {
		w.room(r, width)
		k := keys[i]
		if len(w.seen) < maxSeen {
			w.seen[k] = struct{}{}
		}
		r.Keys = append(r.Keys, k)
		r.Floats = append(r.Floats, grads[int(i)*width:(int(i)+1)*width]...)
	}
	w.w.add(r)
}

// room ends a record that cannot take another row.
func (w *Worker) room(r *Record, width int) {
	if fixedBytes+(8+4*width)*(len(r.Keys)+1) > MaxRecord {
		w.w.add(r)
		r.Keys, r.Floats = r.Keys[:0], r.Floats[:0]
	}
}

// SendDense is Send for a lane's blocks of the whole vector. All rows of a record
// are as wide as the widest block's: zeros follow shorter ones.
func (w *Worker) SendDense(p Pushed, grads []float32) {
	if w == nil {
		return
	}
	width := 0
	for i, b := range w.blocks {
		if b.Lane == p.Lane {
			width = max(width, len(w.places[i]))
		}
	}
	r := w.begin(Record{Kind: Send, Flags: p.Flags, Lane: uint32(p.Lane), Table: DenseTable, Seq: p.Seq, Clock: p.Clock, Width: uint32(width)})
	for i, b := range w.blocks {
		if b.Lane != p.Lane || p.Flags&Absent != 0 {
			continue
		}
		w.room(r, width)
		r.Keys = append(r.Keys, uint64(i))
		r.Floats = pick(r.Floats, grads[b.Offset:b.Offset+b.Len], w.places[i])
		r.Floats = append(r.Floats, make([]float32, width-len(w.places[i]))...)
	}
	w.w.add(r)
}

// Done notes a lane's answer to a push.
func (w *Worker) Done(p Pushed, code uint8, version uint64, refused uint32) {
	if w == nil {
		return
	}
	w.w.add(w.begin(Record{Kind: Done, Code: code, Lane: uint32(p.Lane), Table: p.Table, Seq: p.Seq, Clock: p.Clock, Version: version, Refused: refused}))
}

// Keys are sampled keys that were pushed, as many as are remembered: what is worth
// a last look at the end.
func (w *Worker) Keys() []uint64 {
	if w == nil {
		return nil
	}
	keys := make([]uint64, 0, len(w.seen))
	for k := range w.seen {
		keys = append(keys, k)
	}
	return keys
}

// Err is why the record ended before its worker, nil where it did not.
func (w *Worker) Err() error {
	if w == nil {
		return nil
	}
	return w.w.err
}

// Close ends the record. On nil it does nothing.
func (w *Worker) Close() error {
	if w == nil {
		return nil
	}
	return w.w.close()
}

func now() int64 { return time.Now().UnixNano() }
