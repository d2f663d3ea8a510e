//go:build cgo

package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"psrt/csrc/accel"
	"psrt/csrc/probe"
	"psrt/csrc/ptx"
	"psrt/rdma/mem"
	"psrt/rdma/nap"
	"psrt/tiers/accessor"
	"psrt/tiers/hbm"
)

// Probe says why the GPU cannot be used, or nil, and learns its name.
func (d *Device) Probe() error {
	dev, err := d.open()
	if err != nil {
		return err
	}
	return dev.Close()
}

// room is how many bytes are free.
func (d *Device) room() (free int64, err error) {
	dev, err := d.open()
	if err != nil {
		return 0, err
	}
	free, _, err = dev.Room()
	return free, errors.Join(err, dev.Close())
}

// Open takes memory for rows and stages.
func (d *Device) Open(acc *accessor.Accessor, index *probe.Bounded, rows, batchRows int) (hbm.Arena, error) {
	if acc.UserRule() {
		return nil, ErrUserRule
	}
	if err := d.isBroken(); err != nil {
		return nil, err
	}
	dev, err := d.open()
	if err != nil {
		return nil, err
	}
	spec := acc.Spec()
	a := &arena{card: d, dev: dev, acc: acc, lay: layoutOf(&spec, rows, batchRows), rows: rows, marks: make([]mark, rows), index: index, patient: patient}
	a.size = a.lay.bytes(rows)
	if err := a.bounded(openWithin, a.take); err != nil {
		if accel.IsOutOfMemory(err) {
			free, total, _ := dev.Room()
			err = fmt.Errorf("%w: table %q wants %d bytes of %s, of whose %d there are %d free; lower --hbm-budget, or end what else uses it", err, spec.Name, a.size, d.Name(), total, free)
		}
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// The numbers of ptx.Kernels.
const (
	gatherRows = iota
	putRows
	updateRows
	gatherParts
	updateParts
	findRows
	findParts
)

type arena struct {
	card    *Device
	dev     *accel.Device
	acc     *accessor.Accessor
	lay     layout
	rows    int
	size    int
	lane    [lanes]lane
	index   *probe.Bounded
	memory  uint64
	image   uint64 // of the index
	buffers [][]byte
	marks   []mark // by slot
	turn    uint32 // of an update
	patient int    // how many keys are found on the device though rows are being moved in
	bytes   []byte // an argument
	failed  error
	times   hbm.Times
}

// stage is what one piece of a batch takes on its way.
type stage struct {
	at                uint64 // numbers of rows, floats, keys, the count of refused
	flat, keys, count uint64
	ids               []uint32 // pinned, as what follows
	words             []uint64 // keys, or buckets of the index
	refused           []uint64
	host              []byte                 // all of them
	floats            []byte                 // pinned, as many as flat has, once they are wanted
	stamps            [stampsOf]*accel.Event // nil where the device tells no times
	stamped           bool
	owed              piece        // where floats go when the device is done, none: nowhere
	over, sent        *accel.Event // all of it; what it brings
	sets              bool         // of the lane that moves rows: it changes those on the device
	number            uint64       // of the lane's piece that used it last, 0: it is over
	whole             *int         // where its refused are added, nil: it has none
	found             []uint32     // where the rows that it found go, nil: it found none
}

func (a *arena) take() (err error) {
	if err := a.takeLanes(); err != nil {
		return err
	}
	if a.memory, err = a.dev.Alloc(a.size); err != nil {
		return err
	}
	a.image = a.memory + uint64(align(4*a.lay.stride*a.rows))
	if err := a.lane[working].stream.Fill(a.image, 0, indexBytes(a.rows)); err != nil {
		return err
	}
	at := a.image + uint64(indexBytes(a.rows))
	for s := range a.allStages() {
		s.at, s.flat = at, at+uint64(a.lay.idBytes())
		s.keys = s.flat + uint64(a.lay.flatBytes())
		s.count = s.keys + uint64(8*a.lay.words())
		at += uint64(a.lay.stageBytes())
		if s.host, err = a.dev.HostAlloc(8 + 8*a.lay.words() + 4*a.lay.piece); err != nil {
			return err
		}
		s.refused, s.words = mem.Uint64s(s.host[:8]), mem.Uint64s(s.host[8:8+8*a.lay.words()])
		s.ids = mem.Uint32s(s.host[8+8*a.lay.words():])
		if s.over, err = a.dev.NewEvent(); err != nil {
			return err
		}
		if s.sent, err = a.dev.NewEvent(); err != nil {
			return err
		}
	}
	if err := a.takeStamps(); err != nil {
		return err
	}
	for i := range a.lane[working].stage {
		s := &a.lane[working].stage[i]
		if s.floats, err = a.dev.HostAlloc(a.lay.flatBytes()); err != nil {
			return err
		}
	}
	return nil
}

// bounded makes calls as Bounded does, none where the card is known to hang.
func (a *arena) bounded(within time.Duration, calls func() error) error {
	if err := a.card.hangs(); err != nil {
		return err
	}
	err := Bounded(within, calls)
	if errors.Is(err, ErrHangs) {
		a.fail(err)
	}
	return err
}

// hostAlloc takes pinned memory. What comes too late is the process's, to its end.
func (a *arena) hostAlloc(bytes int) ([]byte, error) {
	var taken []byte
	err := a.bounded(a.within(), func() (err error) {
		taken, err = a.dev.HostAlloc(bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// wantFloats has a stage have pinned memory for the floats of a piece, which those of whole rows
// that come from and go to buffers do without.
func (a *arena) wantFloats(s *stage) (err error) {
	if s.floats == nil {
		s.floats, err = a.hostAlloc(a.lay.flatBytes())
	}
	return err
}

func (a *arena) Buffer(floats int) ([]float32, error) {
	b, err := a.hostAlloc(4 * floats)
	if err != nil {
		return nil, err
	}
	a.buffers = append(a.buffers, b)
	return mem.Float32s(b), nil
}

// fail keeps the first error: what a device has met it does not get over. That it hangs is added to
// any: then nothing of it is waited for or given back.
func (a *arena) fail(err error) bool {
	if err != nil && (a.failed == nil || errors.Is(err, ErrHangs) && !errors.Is(a.failed, ErrHangs)) {
		a.failed = errors.Join(a.failed, err)
		a.card.breaks(err)
	}
	return a.failed != nil
}

// within is how long a piece of work may take.
func (a *arena) within() time.Duration { return cmp.Or(a.card.Within, PieceWithin) }

// PieceWithin: a piece of a batch takes a card milliseconds, and longer where others have work on it.
const PieceWithin = time.Minute

// openWithin bounds taking a device's memory: the driver compiles the kernels meanwhile, where it has
// not before.
const openWithin = 5 * time.Minute

// ErrHangs marks a card that is not done with a piece of work in time: nothing of it can be had
// back, as the driver would wait, and it may still write.
var ErrHangs = hbm.ErrHangs

// Await waits for an event, not longer than PieceWithin, or what a test says: a card that hangs has failed.
func Await(over interface{ Passed() (bool, error) }, within time.Duration) error {
	for begin := time.Now(); ; {
		if done, err := over.Passed(); done || err != nil {
			return err
		}
		waited := time.Since(begin)
		if waited > within {
			return late(within)
		}
		nap.Rest(waited)
	}
}

func late(within time.Duration) error {
	return fmt.Errorf("%w: a piece of work is not over after %v; look for Xid in the kernel's log, or end what else uses the card", ErrHangs, within)
}

// Bounded makes calls that a driver keeps until all work of its context is over, others' too, whose
// streams may hang where one's own are done: in CUDA those that give memory back, unload kernels, or take
// memory of the host. Where they are not over in time the card hangs; the goroutine that makes them then
// stays with them, and whatever they were about is theirs.
func Bounded(within time.Duration, calls func() error) error {
	over := make(chan error, 1)
	go func() { over <- calls() }()
	select {
	case err := <-over:
		return err
	case <-time.After(within):
		return late(within)
	}
}

// retire waits for what used a stage last.
func (a *arena) retire(l *lane, s *stage) {
	if s.number == 0 || errors.Is(a.failed, ErrHangs) || a.fail(Await(s.over, a.within())) {
		return
	}
	l.over, s.number = max(l.over, s.number), 0
	if a.fail(a.readStamps(s)) {
		return
	}
	if s.whole != nil {
		*s.whole += int(s.refused[0])
		s.whole = nil
	}
	copy(s.found, s.ids)
	s.found = nil
	s.owed.scatter(s.floats)
	s.owed = piece{}
}

// piece is the floats of the host that go with a part of a batch.
type piece struct {
	flat        []byte
	width, step int // floats of a row, and from one to the next
}

// bytes is how many of them are rows'.
func (p *piece) bytes() int {
	if len(p.flat) == 0 {
		return 0
	}
	return (len(p.flat)-4*p.width)/(4*p.step)*4*p.width + 4*p.width
}

// scatter writes rows that lie together to where they are to be.
func (p *piece) scatter(rows []byte) {
	if p.step == p.width {
		copy(p.flat, rows)
		return
	}
	for at := 0; at < len(p.flat); at += 4 * p.step {
		copy(p.flat[at:at+4*p.width], rows)
		rows = rows[4*p.width:]
	}
}

// pieces cuts a batch of n into pieces of most and gives each a stage of a lane, until the
// device fails. The fence is that of the last.
func (a *arena) pieces(l *lane, n, most, width int, do func(s *stage, first int, b *ptx.Batch) error) hbm.Fence {
	for first := 0; first < n && a.failed == nil; first += most {
		l.next++
		s := &l.stage[int(l.next)%len(l.stage)]
		begin := time.Now()
		if a.retire(l, s); a.failed != nil {
			break
		}
		a.times.Waited += time.Since(begin)
		b := &ptx.Batch{Rows: a.memory, Flat: s.flat, IDs: s.at, Stride: a.lay.stride, Count: a.rows,
			N: min(n-first, most), Width: width, Step: width}
		s.number = l.next
		if a.fail(do(s, first, b)) || a.fail(a.stamp(l, s, outOver)) || a.fail(l.stream.Record(s.over)) {
			break
		}
	}
	return l.fence()
}

// each is pieces of a batch of slots, with width floats of the host for each, the next
// step floats further on.
func (a *arena) each(l *lane, slots []uint32, host []float32, width, step int, do func(s *stage, p piece, b *ptx.Batch) error) hbm.Fence {
	return a.pieces(l, len(slots), a.lay.piece, width, func(s *stage, first int, b *ptx.Batch) error {
		copy(s.ids, slots[first:first+b.N])
		if err := a.inTurn(l, slots[first:first+b.N]); err != nil {
			return err
		}
		if err := errors.Join(a.stamp(l, s, pieceBegun), l.in.ToDevice(s.at, mem.Bytes(s.ids[:b.N]))); err != nil {
			return err
		}
		return do(s, pieceOf(host, first, b.N, width, step), b)
	})
}

func pieceOf(host []float32, first, n, width, step int) piece {
	return piece{flat: mem.Bytes(host[first*step : (first+n-1)*step+width]), width: width, step: step}
}

func (a *arena) CopyIn(slots []uint32, rows []float32) hbm.Fence {
	l := a.mover()
	return a.each(l, slots, rows, a.lay.row, a.lay.row, func(s *stage, p piece, b *ptx.Batch) error {
		s.sets = true
		a.bytes = b.Append(a.bytes[:0])
		return errors.Join(a.send(l, s, p), a.run(l, s, putRows, b.N, a.bytes))
	})
}

func (a *arena) CopyOut(slots []uint32, rows []float32) hbm.Fence {
	l := a.mover()
	return a.each(l, slots, rows, a.lay.row, a.lay.row, func(s *stage, p piece, b *ptx.Batch) error {
		s.sets = false
		a.bytes = b.Append(a.bytes[:0])
		return errors.Join(a.run(l, s, gatherRows, b.N, a.bytes), a.fetch(l, s, p))
	})
}

func (a *arena) Gather(slots []uint32, dst []float32, step int) hbm.Fence {
	l := &a.lane[working]
	return a.each(l, slots, dst, a.lay.dim, step, func(s *stage, p piece, b *ptx.Batch) error {
		kernel := gatherRows
		there := a.writesTo(b, p)
		if parts := a.acc.Parts(); parts != nil {
			kernel, a.bytes = gatherParts, b.AppendGatherParts(a.bytes[:0], int(parts.Life))
		} else {
			a.bytes = b.Append(a.bytes[:0])
		}
		err := a.run(l, s, kernel, b.N, a.bytes)
		if there {
			return err
		}
		return errors.Join(err, a.fetch(l, s, p))
	})
}

// Find sends what has changed of the index, and the keys; what is found comes back with
// the rows. While rows are moved in it waits for all of these, as nobody here would know which are wanted, or
// the host finds, where that is sooner.
func (a *arena) Find(keys []uint64, slots []uint32, dst []float32, step int) hbm.Fence {
	moves := a.moves()
	if moves && len(keys) < a.patient {
		a.index.Find(keys, slots[:len(keys)])
		return a.Gather(slots[:len(keys)], dst, step)
	}
	if a.refresh(); moves {
		a.fail(a.behindAll())
	}
	l := &a.lane[working]
	return a.pieces(l, len(keys), a.lay.piece, a.lay.dim, func(s *stage, first int, b *ptx.Batch) error {
		l.any = l.next
		copy(s.words, keys[first:first+b.N])
		s.found = slots[first : first+b.N]
		p := pieceOf(dst, first, b.N, b.Width, step)
		there := a.writesTo(b, p)
		at := ptx.Index{Keys: s.keys, Buckets: a.image}
		at.Seed, at.Homes, at.Count = a.index.Hash()
		kernel := findRows
		if parts := a.acc.Parts(); parts != nil {
			kernel, a.bytes = findParts, b.AppendFindParts(a.bytes[:0], &at, int(parts.Life))
		} else {
			a.bytes = b.AppendFind(a.bytes[:0], &at)
		}
		err := errors.Join(a.stamp(l, s, pieceBegun), l.in.ToDevice(s.keys, mem.Bytes(s.words[:b.N])), a.run(l, s, kernel, b.N, a.bytes),
			l.stream.ToHost(mem.Bytes(s.ids[:b.N]), s.at))
		if there {
			return err
		}
		return errors.Join(err, a.fetch(l, s, p))
	})
}

// refresh brings the image of the index up to date: buckets are rows of it.
func (a *arena) refresh() {
	const width = probe.BucketBytes / 4
	l := &a.lane[working]
	for a.index.Changed() > 0 && a.failed == nil {
		a.pieces(l, 1, 1, width, func(s *stage, _ int, b *ptx.Batch) error {
			most := min(len(s.ids), len(s.words)*8/probe.BucketBytes)
			b.N = a.index.Take(s.ids[:most], mem.Bytes(s.words))
			_, _, buckets := a.index.Hash()
			b.Rows, b.Stride, b.Count, b.Flat = a.image, width, buckets, s.keys
			a.bytes = b.Append(a.bytes[:0])
			return errors.Join(a.stamp(l, s, pieceBegun), l.in.ToDevice(s.at, mem.Bytes(s.ids[:b.N])),
				l.in.ToDevice(s.keys, mem.Bytes(s.words)[:b.N*probe.BucketBytes]), a.run(l, s, putRows, b.N, a.bytes))
		})
	}
}

// pinned says whether memory is a buffer's, which the device reaches. With other memory the
// driver would keep who asks for a copy until the stream has come to it, which of a card that hangs
// is for ever; and it would go through memory of the driver's own, piece by piece.
func (a *arena) pinned(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, buffer := range a.buffers {
		first := uintptr(unsafe.Pointer(unsafe.SliceData(buffer)))
		if at >= first && at+uintptr(len(b)) <= first+uintptr(len(buffer)) {
			return true
		}
	}
	return false
}

// writesTo has the kernel write a batch's floats where they are to be, if it reaches that.
func (a *arena) writesTo(b *ptx.Batch, p piece) bool {
	if !a.pinned(p.flat) {
		return false
	}
	b.Flat, b.Step = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p.flat)))), p.step
	return true
}

// send copies a piece's floats, which lie together, to the stage.
func (a *arena) send(l *lane, s *stage, p piece) error {
	if a.pinned(p.flat) {
		return l.in.ToDevice(s.flat, p.flat)
	}
	if err := a.wantFloats(s); err != nil {
		return err
	}
	return l.in.ToDevice(s.flat, s.floats[:copy(s.floats, p.flat)])
}

// fetch copies a piece's floats from the stage to a buffer, or to the stage's memory of the host,
// from where they go on when somebody has waited for them. So a card that hangs never writes
// where others look.
func (a *arena) fetch(l *lane, s *stage, p piece) error {
	if p.step == p.width && a.pinned(p.flat) {
		return l.stream.ToHost(p.flat, s.flat)
	}
	if err := a.wantFloats(s); err != nil {
		return err
	}
	s.owed = p
	return l.stream.ToHost(s.floats[:p.bytes()], s.flat)
}

// Update gives the kernel each row once: rows named twice are updated one after the
// other, as everywhere.
func (a *arena) Update(slots []uint32, grads []float32, refused *int) hbm.Fence {
	*refused = 0
	width := a.lay.push
	for len(slots) > 0 && a.failed == nil {
		n := a.once(slots)
		a.update(slots[:n], grads[:n*width], refused)
		slots, grads = slots[n:], grads[n*width:]
	}
	return a.lane[working].fence()
}

// once is how many slots, from the front, name no row twice.
func (a *arena) once(slots []uint32) int {
	if a.turn++; a.turn == 0 {
		for i := range a.marks {
			a.marks[i].updated = 0
		}
		a.turn = 1
	}
	for i, s := range slots {
		if int(s) >= len(a.marks) {
			continue
		}
		if a.marks[s].updated == a.turn {
			return i
		}
		a.marks[s].updated = a.turn
	}
	return len(slots)
}

func (a *arena) update(slots []uint32, grads []float32, refused *int) {
	l := &a.lane[working]
	a.each(l, slots, grads, a.lay.push, a.lay.push, func(s *stage, p piece, b *ptx.Batch) error {
		s.whole = refused
		kernel := updateRows
		if parts := a.acc.Parts(); parts != nil {
			kernel, a.bytes = updateParts, b.AppendUpdateParts(a.bytes[:0], parts, s.count)
		} else {
			a.bytes = b.AppendUpdate(a.bytes[:0], a.acc.Rule(), s.count)
		}
		return errors.Join(l.stream.Fill(s.count, 0, 8), a.send(l, s, p), a.run(l, s, kernel, b.N, a.bytes),
			l.stream.ToHost(mem.Bytes(s.refused), s.count))
	})
}

// Wait waits for the pieces of a lane up to a fence: the others' stages have been used again
// since, or waited for.
func (a *arena) Wait(f hbm.Fence) error {
	l, number := a.of(f)
	for i := range l.stage {
		if s := &l.stage[i]; s.number != 0 && s.number <= number {
			a.retire(l, s)
		}
	}
	return a.failed
}

func (a *arena) Bytes() int64 { return int64(a.size) }

func (a *arena) HostBytes() (n int64) {
	for s := range a.allStages() {
		n += int64(len(s.host) + len(s.floats))
	}
	return n
}

// Close waits for the device and gives all back, but of one that hangs, be it in another table's
// stream: that stays as it is, to the process's end.
func (a *arena) Close() error {
	for i := range a.lane {
		if a.card.hangs() != nil || errors.Is(a.Wait(a.lane[i].fence()), ErrHangs) {
			return nil
		}
	}
	err := a.bounded(a.within(), a.giveBack)
	if a.failed != nil || errors.Is(err, ErrHangs) { // then every call has its error
		return nil
	}
	return err
}

func (a *arena) giveBack() error {
	var errs []error
	for s := range a.allStages() {
		for _, e := range append(s.stamps[:], s.over, s.sent) {
			if e != nil {
				errs = append(errs, e.Close())
			}
		}
		if s.host != nil {
			errs = append(errs, a.dev.HostFree(s.host))
		}
		if s.floats != nil {
			errs = append(errs, a.dev.HostFree(s.floats))
		}
	}
	for _, b := range a.buffers {
		errs = append(errs, a.dev.HostFree(b))
	}
	if a.memory != 0 {
		errs = append(errs, a.dev.Free(a.memory))
	}
	for s := range a.streams() {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, a.dev.Close())...)
}
