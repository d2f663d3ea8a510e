package client

import (
	"slices"
	"time"

	"psrt/rdma/mem"
	"psrt/sched/compress"
	"psrt/sched/compress/span"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

// press compresses what a client pushes; see sched/compress. It belongs to whose turn
// it is.
type press struct {
	choice compress.Choice
	auto   *compress.Auto // nil: the code is chosen
	merge  *span.Span     // nil: steps are not merged
	even   uint64         // of how many steps there is one that sends, counted from step 0; 0: merge says
	held   bool           // the rows of the running step are kept
	due    bool           // what is kept goes with the first step, where even says which do
	began  time.Time
	share  float64 // of topk, now
	all    bool    // nothing is left for later
	most   int     // rows of the largest step so far
	limit  int     // rows that one push brings late; 0: any number
	kept   map[uint32]*kept
	dense  compress.Dense
	work   compress.Scratch
	stats  CompressStats
	sent   []bool
	times  []uint8
	bits   []uint64
}

// kept is what was not sent yet of a table's gradients, and the working set in which it
// travels when it is due.
type kept struct {
	rows  *compress.Sparse
	late  *Rows
	index [1][]int32
	times []uint8 // of the rows that are late
	// timed: servers make as many steps of a sum as it is of (psmsg.TimesSince). Not where steps
	// are merged: asp's pushes are late already, and models came to their best sooner and lower.
	timed bool
}

// CompressStats counts what compressing did.
type CompressStats struct {
	Code        string  `json:"code"`         // what was asked for; of auto what it found
	FloatBytes  uint64  `json:"float_bytes"`  // of gradients that were given
	PackedBytes uint64  `json:"packed_bytes"` // of what was sent for them
	LateRows    uint64  `json:"late_rows"`    // sent in a later step than that of their gradients
	KeptRows    int     `json:"kept_rows"`    // now
	Seconds     float64 `json:"seconds"`      // that it took
	// Merge is nil where steps are not merged.
	Merge *MergeStats `json:"merge,omitempty"`
}

// MergeStats counts what merging steps did.
type MergeStats struct {
	Steps   int    `json:"steps"`   // that are sent together in the end
	Changes int    `json:"changes"` // of that number
	Merged  uint64 `json:"merged"`  // pushes whose rows went, all or some, with those of a later one
	Rows    uint64 `json:"rows"`    // that were not sent, as the same rows were in a later step
	Waiting uint64 `json:"waiting"` // pushes that found an earlier one not answered
}

// keptBytes bounds what one table's rows that are not sent yet take.
const keptBytes = 256 << 20

func newPress(choice compress.Choice, even bool) *press {
	if !choice.On() {
		return nil
	}
	p := &press{choice: choice, share: choice.ShareIn(0), kept: map[uint32]*kept{}, began: time.Now()}
	if choice.Auto {
		p.auto = &compress.Auto{}
	}
	if choice.Merge > 1 {
		p.merge, p.stats.Merge = span.New(choice.Merge, !choice.MergeAuto), &MergeStats{}
	}
	if even && choice.Keeps() {
		if p.even = 1; !choice.MergeAuto {
			p.even = uint64(max(1, choice.Merge))
		}
	}
	return p
}

func (p *press) close() {
	if p == nil {
		return
	}
	for _, k := range p.kept {
		k.late.Close()
	}
}

// code is how floats travel now. In a step the dense vector comes first.
func (p *press) code() compress.Code {
	switch {
	case p.auto != nil:
		return p.auto.Code()
	case p.choice.Code == compress.Top: // rows that are sent are so as they are
		return compress.Floats
	}
	return p.choice.Code
}

// step says that a step's rows are pushed. Where servers read the worker's memory itself
// there is no link: nothing is found out about it then, and nothing merged by itself.
func (c *Client) step(clock uint64) {
	p := c.press
	now, linked := time.Since(p.began).Seconds(), c.linked()
	if p.auto != nil && linked {
		p.auto.Next(now)
	}
	if p.held = false; p.merge == nil {
		return
	}
	if linked || !p.choice.MergeAuto {
		waiting := c.pushing()
		if p.held = !p.merge.Next(now, waiting); waiting {
			p.stats.Merge.Waiting++
		}
	}
	if p.even > 0 {
		p.held = (clock+1)%p.even != 0 && !p.due
		p.due = false
	}
}

// linked says whether there is a link to some lane, whose server then does not read this
// worker's memory itself.
func (c *Client) linked() bool {
	return slices.ContainsFunc(c.lanes, func(l *laneConn) bool { return !l.mapped })
}

// Finds is the number of steps that auto would merge now, to try it or because it is the best,
// where who uses this client says which number it is: Config.Even.
func (c *Client) Finds() int {
	c.lock()
	defer c.unlock()
	if !c.linked() {
		return 1
	}
	return c.press.merge.Now()
}

// Merge has so many steps merged from the next one on, where Config.Even is set and auto was
// asked for. Preconditions: nothing is kept, as each number before divides that of the steps.
func (c *Client) Merge(steps int) {
	c.lock()
	defer c.unlock()
	c.press.even = uint64(steps)
	c.press.merge.GoOn(steps)
}

// pushing says whether rows that were pushed have not been answered.
func (c *Client) pushing() bool {
	for _, l := range c.lanes {
		for i := range l.parts {
			if p := &l.parts[i]; p.active && p.kind == psmsg.KindPush {
				return true
			}
		}
	}
	return false
}

// SendAll has pushes leave nothing behind for later ones, or stop doing so: before the
// values are looked at that training ends with. All but topk leave nothing anyway.
func (c *Client) SendAll(on bool) {
	c.lock()
	defer c.unlock()
	if c.press != nil {
		c.press.all = on
		if !on {
			c.press.limit = 0
		}
	}
}

// Pass says that a pass over the data begins, the first of which is 0: topk's share may be
// another one in each.
func (c *Client) Pass(pass int) {
	c.lock()
	defer c.unlock()
	if c.press != nil {
		c.press.share = c.press.choice.ShareIn(pass)
	}
}

// KeptSteps is how many steps it takes to push what is kept where none has more rows than
// those before had: servers whose rows lie on disks pin what a step is for. The next
// pushes with SendAll keep to that.
func (c *Client) KeptSteps() int {
	c.lock()
	defer c.unlock()
	p := c.press
	if p == nil {
		return 0
	}
	if p.even > 0 && p.merge != nil {
		return 1 // always: who goes on for this worker computes steps again, and may find another number
	}
	p.limit = max(1, p.most)
	most := 0
	for _, k := range p.kept {
		most = max(most, k.rows.Kept())
	}
	return (most + p.limit - 1) / p.limit
}

// Compressed counts since the client was opened.
func (c *Client) Compressed() CompressStats {
	c.lock()
	defer c.unlock()
	if c.press == nil {
		return CompressStats{}
	}
	s := c.press.stats
	s.Code = c.press.choice.String()
	if c.press.auto != nil {
		s.Code += ": " + c.press.auto.Taken().String()
	}
	if m := c.press.merge; m != nil {
		all := *s.Merge
		s.Merge = &all
		s.Merge.Steps, s.Merge.Changes = m.Taken(), m.Changes()
	}
	for _, k := range c.press.kept {
		s.KeptRows += k.rows.Kept()
	}
	return s
}

// packed is a working set's compressed push. It lies there until the push is answered:
// a request that is sent again is the same.
type packed struct {
	arena *shared
	parts []packedPart // by lane; where bytes is 0 nothing is packed
	plain plain
}

type packedPart struct {
	at, bytes int
	// Bare: the keys of the rows that are in it lie at keys. Else it says itself which
	// of all the lane's rows these are.
	bare       bool
	keys, rows int
	timed      bool // it says of how many steps rows are the sum
}

// of is what is packed for a lane, or nil.
func (p *packed) of(lane int) *packedPart {
	if lane >= len(p.parts) || p.parts[lane].bytes == 0 {
		return nil
	}
	return &p.parts[lane]
}

// room makes room for n bytes. Preconditions: nothing of it is in flight.
func (p *packed) room(c *Client, n int) ([]byte, error) {
	p.clear()
	if p.arena == nil || len(p.arena.arena.Bytes()) < n {
		a, err := c.share(n+n/4, "worker compressed push")
		if err != nil {
			return nil, err
		}
		p.close()
		p.arena = a
	}
	if len(p.parts) == 0 {
		p.parts = make([]packedPart, len(c.lanes))
	}
	return p.arena.arena.Bytes(), nil
}

// clear says that nothing is packed. Preconditions: nothing of it is in flight.
func (p *packed) clear() {
	clear(p.parts)
	p.plain.forget()
}

func (p *packed) close() {
	p.plain.close()
	if p.arena != nil {
		p.arena.close()
		p.arena = nil
	}
}

// packs says whether every server reads compressed pushes. A part of them alone would
// not do: rows are chosen over all lanes.
func (c *Client) packs() bool { return c.speak(psmsg.PackedSince) }

// Speak says whether every server speaks a version: those that it connects to from now on may
// not. Any goroutine.
func (c *Client) Speak(version int) bool { return c.speak(int32(version)) }

// speak says whether every server speaks a version.
func (c *Client) speak(version int32) bool {
	for _, s := range c.servers {
		if s.speaks.Load() < version {
			return false
		}
	}
	return true
}

// packRows compresses a push, if this client does. What was kept and is due goes out
// before it, under the same call.
func (c *Client) packRows(r *Rows, clock uint64, call *Call) error {
	p := c.press
	if p == nil {
		return nil
	}
	start, width := time.Now(), r.spec.PushFloats()
	defer func() { p.stats.Seconds += time.Since(start).Seconds() }()
	r.packed.clear()
	p.most = max(p.most, r.n)
	p.stats.FloatBytes += uint64(r.n * width * 4)
	c.step(clock)
	able := c.packs()
	var sent []bool
	var times []uint8
	if p.choice.Keeps() {
		k, err := c.keptOf(r.spec)
		if err != nil {
			return err
		}
		p.sent, p.times = grow(p.sent, r.n), grow(p.times, r.n)
		if sent, err = c.chooseRows(k, r, able, clock, call); err != nil {
			return err
		}
		times = c.timesOf(k, p.times)
	}
	if !able || sent == nil && times == nil && p.code() == compress.Floats {
		p.stats.PackedBytes += uint64(r.n * width * 4)
		return nil
	}
	return c.pack(r, sent, times)
}

// timesOf is what servers are told of how many steps rows are the sum: nil where each is of
// one, or where nobody asks.
func (c *Client) timesOf(k *kept, times []uint8) []uint8 {
	if !k.timed || !slices.ContainsFunc(times, func(n uint8) bool { return n > 1 }) || !c.speak(psmsg.TimesSince) {
		return nil
	}
	return times
}

// chooseRows says which rows are sent now. What was kept of others and is due goes out
// before them, under the same call.
func (c *Client) chooseRows(k *kept, r *Rows, able bool, clock uint64, call *Call) ([]bool, error) {
	p, grads := c.press, r.grads[:r.n*r.spec.PushFloats()]
	all := p.all || !able
	if p.merge == nil {
		err := c.pushLate(k, all, clock, call)
		k.rows.Choose(r.keys[:r.n], grads, p.share, all, p.sent, p.times)
		for lane := range c.lanes {
			if c.had(lane) {
				k.rows.Forget(r.keys[r.laneOff[lane]:r.laneOff[lane+1]])
			}
		}
		return p.sent, err
	}
	before := k.rows.Kept()
	if p.held && !all {
		if err := c.pushLate(k, false, clock, call); err != nil {
			return nil, err
		}
		before = k.rows.Kept()
		k.rows.Hold(r.keys[:r.n], grads, p.sent, p.times)
		sent := 0
		for _, is := range p.sent {
			if is {
				sent++
			}
		}
		p.stats.Merge.Merged++
		p.stats.Merge.Rows += uint64(r.n - sent - (k.rows.Kept() - before))
		return p.sent, nil
	}
	// What of this step's rows was kept goes with them, and the rest by keys.
	k.rows.Take(r.keys[:r.n], grads, p.times)
	if before == 0 && p.even == 0 {
		return nil, nil
	}
	p.stats.Merge.Rows += uint64(before - k.rows.Kept())
	return nil, c.pushLate(k, true, clock, call)
}

// keptOf is what was not sent yet of a table.
func (c *Client) keptOf(spec table.Spec) (*kept, error) {
	p := c.press
	if k := p.kept[spec.ID]; k != nil {
		return k, nil
	}
	late, err := c.NewRows(spec)
	if err != nil {
		return nil, err
	}
	heads := spec.PushFloats() - spec.Dim
	k := &kept{rows: compress.NewSparse(heads, spec.Dim, keptBytes), late: late}
	k.timed = p.choice.Code == compress.Top && heads == 0 && spec.Optimizer.Repeats()
	p.kept[spec.ID] = k
	return k, nil
}

// pushLate pushes rows that are due, and were not asked for in this step. Where Config.Even is
// set each lane gets one such push in each step, with rows or without.
func (c *Client) pushLate(k *kept, all bool, clock uint64, call *Call) error {
	keys, rows, times := k.rows.Due(all, c.press.limit)
	if len(keys) == 0 && c.press.even == 0 {
		return nil
	}
	c.press.stats.LateRows += uint64(len(keys))
	deadline := time.Now().Add(c.cfg.Timeout)
	for k.late.calls > 0 { // the last ones, of a step that others have not ended yet
		if err := c.progress(deadline); err != nil {
			return err
		}
	}
	r, width := k.late, k.late.spec.PushFloats()
	r.packed.clear()
	k.index[0] = grow(k.index[0], len(keys))
	if err := r.Plan([][]uint64{keys}, k.index[:]); err != nil {
		return err
	}
	k.times = grow(k.times, len(keys))
	for i, at := range k.index[0] {
		copy(r.grads[int(at)*width:(int(at)+1)*width], rows[i*width:(i+1)*width])
		k.times[at] = times[i]
	}
	times = c.timesOf(k, k.times)
	if len(keys) > 0 && c.packs() && (c.press.code() != compress.Floats || times != nil) {
		if err := c.pack(r, nil, times); err != nil {
			return err
		}
	} else {
		c.press.stats.PackedBytes += uint64(len(rows) * 4)
	}
	return c.issueRows(r, clock, c.press.even > 0, 0, call)
}

// pack compresses rows lane by lane; sent says which, nil all, and times of how many steps
// each is the sum, nil of one.
func (c *Client) pack(r *Rows, sent []bool, times []uint8) error {
	p, width := c.press, r.spec.PushFloats()
	heads := width - r.spec.Dim
	room := 0
	for lane := range c.lanes {
		n := r.laneOff[lane+1] - r.laneOff[lane]
		room += compress.MaxRows(n, heads, r.spec.Dim) + n*8
	}
	b, err := r.packed.room(c, room)
	if err != nil {
		return err
	}
	code, at := p.code(), 0
	for lane := range c.lanes {
		first, end := r.laneOff[lane], r.laneOff[lane+1]
		if first == end {
			continue
		}
		k := packedPart{at: at, rows: end - first, timed: times != nil}
		chosen := p.choose(sent, first, end, &k.rows)
		var laneTimes []uint8
		if times != nil {
			laneTimes = times[first:end]
		}
		if chosen == nil && laneTimes == nil && code == compress.Floats {
			p.stats.PackedBytes += uint64((end - first) * width * 4)
			continue
		}
		k.bare = chosen != nil && r.tickets[lane] == 0
		if k.bare {
			k.keys = at
			keys := mem.Uint64s(b[at:][:8*k.rows])
			n := 0
			for i := first; i < end; i++ {
				if sent[i] {
					keys[n] = r.keys[i]
					n++
				}
			}
			at += 8 * k.rows
			k.at = at
		}
		k.bytes = compress.EncodeRows(b[at:], code, r.grads[first*width:end*width], heads, r.spec.Dim, chosen, k.bare, laneTimes, &p.work)
		at += k.bytes
		p.stats.PackedBytes += uint64(k.bytes)
		r.packed.parts[lane] = k
	}
	return nil
}

// choose is which rows of a lane are sent, a bit each, and their number in rows; nil
// where all are.
func (p *press) choose(sent []bool, first, end int, rows *int) []uint64 {
	if sent == nil {
		return nil
	}
	p.bits = grow(p.bits, (end-first+63)/64)
	clear(p.bits)
	n := 0
	for i, is := range sent[first:end] {
		if is {
			p.bits[i/64] |= 1 << (i % 64)
			n++
		}
	}
	if n == end-first {
		return nil
	}
	*rows = n
	return p.bits
}

// describePacked fills in a push whose rows are packed.
func (r *Rows) describePacked(p *part, k *packedPart, req *psmsg.Request, s *slotPayload, copied *CopiedBytes) (err error) {
	first, count := r.laneOff[p.lane], r.laneOff[p.lane+1]-r.laneOff[p.lane]
	req.Table, req.Rows = r.spec.ID, uint32(count)
	req.Flags |= psmsg.FlagPacked
	arena := r.packed.arena
	b := arena.arena.Bytes()
	if req.Values, err = arena.remote(s.l.domain, k.at, k.bytes); err != nil {
		return err
	}
	keys := mem.Bytes(r.keys[first : first+count])
	switch t := r.tickets[p.lane]; {
	case k.bare:
		req.Rows = uint32(k.rows)
		keys = b[k.keys:][:8*k.rows]
		req.Keys, err = arena.remote(s.l.domain, k.keys, 8*k.rows)
	case t != 0:
		req.Flags |= psmsg.FlagTicket
		req.Ticket, keys = t, nil
	default:
		req.Keys, err = r.arena.remote(s.l.domain, first*8, count*8)
	}
	if err != nil {
		return err
	}
	if keys != nil && s.take(keys, &copied.KeysOut) {
		req.Flags |= psmsg.FlagInlineKeys
	}
	if s.take(b[k.at:][:k.bytes], &copied.GradsOut) {
		req.Flags |= psmsg.FlagInlineGrads
	}
	return nil
}

// Cut says how the vector is cut into blocks, so that pushes of it can be compressed.
func (d *Dense) Cut(blocks []densemap.Block) {
	d.blocks = make([][]densemap.Block, len(d.c.lanes))
	for _, b := range blocks {
		lane := d.c.cfg.Map.LaneOfBlock(b.Index, len(blocks))
		d.blocks[lane] = append(d.blocks[lane], b)
	}
}

// packDense compresses a push of the dense vector, if this client does.
func (c *Client) packDense(d *Dense) error {
	p := c.press
	if p == nil || d.blocks == nil {
		return nil
	}
	start := time.Now()
	defer func() { p.stats.Seconds += time.Since(start).Seconds() }()
	d.packed.clear()
	p.stats.FloatBytes += uint64(d.n * 4)
	able := c.packs()
	if p.choice.Code != compress.Top { // what topk had left when this job was stopped
		p.dense.Take(d.grads)
	}
	if !able || p.choice.Code != compress.Top && p.code() == compress.Floats {
		p.stats.PackedBytes += uint64(d.n * 4)
		if p.choice.Code != compress.Top {
			return nil
		}
	}
	room := 0
	for _, lane := range d.lanes {
		room += compress.MaxBlocks(lensOf(d.blocks[lane]))
	}
	b, err := d.packed.room(c, room)
	if err != nil {
		return err
	}
	at := 0
	for _, lane := range d.lanes {
		var blocks []compress.Block
		var offsets []int
		for _, k := range d.blocks[lane] {
			blocks = append(blocks, compress.Block{Values: d.grads[k.Offset:][:k.Len], Exact: k.Rule == "ema"})
			offsets = append(offsets, k.Offset)
		}
		var keep [][]uint16
		code := p.code()
		if p.choice.Code == compress.Top {
			code = compress.Top
			all := p.all || !able
			keep = p.dense.Choose(d.grads, blocks, offsets, p.share, all)
			if all {
				code = compress.Floats
			}
			if c.had(lane) {
				p.dense.Forget(blocks, offsets)
			}
		}
		if !able {
			continue
		}
		n := compress.EncodeBlocks(b[at:], code, blocks, keep)
		d.packed.parts[lane] = packedPart{at: at, bytes: n}
		p.stats.PackedBytes += uint64(n)
		at += n
	}
	return nil
}

func lensOf(blocks []densemap.Block) []int {
	lens := make([]int, len(blocks))
	for i, b := range blocks {
		lens[i] = b.Len
	}
	return slices.Clip(lens)
}

// describePacked fills in a push of the lane's blocks that are packed.
func (d *Dense) describePacked(k *packedPart, req *psmsg.Request, l *laneConn) (err error) {
	req.Rows = 1
	req.Flags |= psmsg.FlagPacked
	req.Values, err = d.packed.arena.remote(l.domain, k.at, k.bytes)
	return err
}
