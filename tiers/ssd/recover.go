package ssd

import (
	"container/heap"
	"fmt"
	"slices"

	"psrt/tiers/blk"
)

// cursor reads one segment's summaries, a buffer at a time.
type cursor struct {
	l    *Log
	seg  uint32
	buf  []byte
	page int // the next one
	from int // first page in buf
	n    int // pages in buf
	busy bool
	err  error
	info pageInfo
}

// cursors are ordered by the time of their next page.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].info.time < h[j].info.time }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) }
func (h *cursors) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}

// recoverLog reads the summaries of a log's segments and tells the owner of all
// records in the order of their pages' times. Segments overlap in time only as
// far as they were open at once: two per device. What is read ahead waits in
// write buffers.
func (s *Store) recoverLog(l *Log) error {
	var segs []uint32
	for i := range s.segs {
		g := &s.segs[i]
		if g.log != l.id {
			continue
		}
		for int(g.local) >= len(l.local) {
			l.local = append(l.local, NoSlot)
		}
		if l.local[g.local] != NoSlot {
			return fmt.Errorf("%w: segments %d and %d are both number %d of log %q", ErrCorrupt, l.local[g.local], i, g.local, l.name)
		}
		l.local[g.local] = uint32(i)
		g.bits = make([]uint64, (l.layout.perSegment()+63)/64)
		g.live, g.rows, g.tombs, g.tombEnd = 0, 0, 0, 0
		segs = append(segs, uint32(i))
	}
	for i, n := range l.local {
		if n == NoSlot {
			l.freeLocal = append(l.freeLocal, uint32(i))
		}
	}
	slices.SortFunc(segs, func(a, b uint32) int {
		if s.segs[a].gen < s.segs[b].gen {
			return -1
		}
		return 1
	})
	if l.cfg.Expect != nil {
		pages := 0
		for _, n := range segs {
			pages += s.segs[n].listed
		}
		l.cfg.Expect(pages * l.layout.slots)
	}
	r := recovery{s: s, l: l, segs: segs, times: make([]uint64, len(l.local)*l.layout.pages)}
	defer r.release()
	if err := r.run(); err != nil {
		return err
	}
	for _, n := range segs {
		s.reclaim(n)
	}
	return nil
}

// recovery is one log's.
type recovery struct {
	s     *Store
	l     *Log
	segs  []uint32
	ahead []*cursor // opened, not in the heap yet; oldest first
	next  int       // of segs
	heap  cursors
	times []uint64 // by page of the log
	keys  []uint64 // of records that the owner has not been told of
	old   []uint32 // where they were
}

func (r *recovery) run() error {
	for {
		if err := r.open(); err != nil {
			return err
		}
		if len(r.heap) == 0 {
			return nil
		}
		c := r.heap[0]
		if err := r.page(c); err != nil {
			return err
		}
		if more, err := r.advance(c); err != nil {
			return err
		} else if more {
			heap.Fix(&r.heap, 0)
		} else {
			heap.Pop(&r.heap)
			r.close(c)
		}
	}
}

// open puts into the heap all segments that may hold the next page, and starts
// reading those behind them.
func (r *recovery) open() error {
	for {
		r.prefetch()
		if len(r.ahead) == 0 {
			return nil
		}
		c := r.ahead[0]
		if len(r.heap) > 0 && r.s.segs[c.seg].gen > r.heap[0].info.time {
			return nil
		}
		r.ahead = append(r.ahead[:0], r.ahead[1:]...)
		if c.buf == nil {
			if c.buf = r.s.segs[c.seg].ext.d.takeChunk(0); c.buf == nil {
				return fmt.Errorf("ssd: internal: log %q: more segments were open at once than there are buffers", r.l.name)
			}
		}
		if more, err := r.advance(c); err != nil {
			return err
		} else if !more {
			r.close(c)
			continue
		}
		heap.Push(&r.heap, c)
	}
}

// prefetch keeps the disks reading. The first of ahead may have to go without a
// buffer for now; later ones are not begun then.
func (r *recovery) prefetch() {
	for r.next < len(r.segs) && len(r.ahead) < 8*len(r.s.disks) {
		n := r.segs[r.next]
		d := r.s.segs[n].ext.d
		buf := d.takeChunk(min(6, d.chunkCount/2))
		if buf == nil && len(r.ahead) > 0 {
			return
		}
		r.next++
		c := &cursor{l: r.l, seg: n, buf: buf}
		r.ahead = append(r.ahead, c)
		if buf == nil {
			return
		}
		r.fetch(c)
		d.pump()
	}
}

// fetch reads the pages from c.page on into c's buffer.
func (r *recovery) fetch(c *cursor) {
	g := &r.s.segs[c.seg]
	lay := &r.l.layout
	c.from = c.page
	c.n = min(g.listed-c.page, len(c.buf)/lay.page)
	if c.n <= 0 {
		c.n = 0
		return
	}
	c.busy = true
	g.ext.d.send(blk.Request{Op: blk.Read, File: g.ext.file, Buf: c.buf[:c.n*lay.page],
		Offset: r.s.offset(c.seg) + int64(c.page)*int64(lay.page)}, func(res blk.Result) {
		c.busy, c.err = false, res.Err
	})
}

// advance makes c.info its next page; false: there is none.
func (r *recovery) advance(c *cursor) (bool, error) {
	g := &r.s.segs[c.seg]
	lay := &r.l.layout
	for c.page < g.listed && g.isBad(c.page) {
		c.page++
	}
	if c.page >= g.listed {
		return false, r.wait(c)
	}
	if !c.busy && (c.n == 0 || c.page >= c.from+c.n) {
		r.fetch(c)
	}
	if err := r.wait(c); err != nil {
		return false, err
	}
	b := c.buf[(c.page-c.from)*lay.page:][:lay.page]
	p, mended, why := r.s.openMended(b, lay)
	if why == "" && (p.store != r.s.id64 || p.gen != g.gen || p.segment != c.seg || p.page != c.page || p.log != r.l.id || p.kind != g.kind) {
		why = "the summary page is of another place or time"
	}
	if why == "" && mended {
		ok, err := r.proven(c, &p, b)
		if err != nil {
			return false, err
		}
		if !ok {
			why = "the summary page's sum is wrong, and so are its records'"
		}
	}
	if why != "" {
		return false, r.s.damaged(c.seg, int64(c.page)*int64(lay.page), why)
	}
	c.info = p
	c.page++
	return true, nil
}

func (r *recovery) wait(c *cursor) error {
	if c.busy {
		if err := r.s.until(func() bool { return !c.busy }); err != nil {
			return err
		}
	}
	if c.err != nil {
		return fmt.Errorf("ssd: reading the summaries of log %q: %w", r.l.name, c.err)
	}
	return nil
}

// page tells the owner what c.info's page holds.
func (r *recovery) page(c *cursor) error {
	l, s := r.l, r.s
	lay := &l.layout
	p := &c.info
	if p.time <= l.since {
		return nil // of before a Reset
	}
	g := &s.segs[c.seg]
	b := c.buf[(p.page-c.from)*lay.page:][:lay.page]
	r.times[int(g.local)*lay.pages+p.page] = p.time
	index := p.page * lay.slots
	for i := 0; i < p.entries; i++ {
		key := entryKey(b, i)
		if !isDeletion(b, lay, i) {
			r.keys = append(r.keys, key)
			continue
		}
		if err := r.rows(g, &index); err != nil {
			return err
		}
		g.tombs++
		l.deletes = true
		if p.kind != kindCopy {
			g.tombEnd = max(g.tombEnd, p.time)
		} else {
			if i++; i == p.entries {
				return s.damaged(c.seg, int64(p.page*lay.page), "a deletion has no time")
			}
			g.tombEnd = max(g.tombEnd, entryKey(b, i))
			if now := l.cfg.Slot(key); now == NoSlot || r.timeOf(now) >= entryKey(b, i) {
				continue // the key came back after it
			}
		}
		r.dead(l.cfg.Gone(key), NoSlot)
	}
	return r.rows(g, &index)
}

// rows tells the owner of the keys gathered, whose records are number index of the
// segment and those behind it.
func (r *recovery) rows(g *segment, index *int) error {
	n := len(r.keys)
	if n == 0 {
		return nil
	}
	l := r.l
	for i := *index; i < *index+n; i++ {
		g.bits[i/64] |= 1 << (i % 64)
	}
	g.live += n
	g.rows += n
	l.live += n
	r.s.live += int64(n) * l.unit
	first := g.local*l.slots + uint32(*index)
	r.old = slices.Grow(r.old[:0], n)[:n]
	if err := l.cfg.Recover(r.keys, first, r.old); err != nil {
		return err
	}
	for i, old := range r.old {
		r.dead(old, first+uint32(i))
	}
	*index += n
	r.keys = r.keys[:0]
	return nil
}

func (r *recovery) timeOf(slot uint32) uint64 {
	if page := int(slot) / r.l.layout.slots; page < len(r.times) {
		return r.times[page]
	}
	return 0
}

// dead buries what the owner has had until now.
func (r *recovery) dead(old, now uint32) {
	if old == NoSlot || old == now {
		return
	}
	if n, index, ok := r.l.locate(old); ok {
		r.l.bury(n, index)
	}
}

func (r *recovery) close(c *cursor) {
	if c.buf != nil {
		r.s.segs[c.seg].ext.d.giveChunk(c.buf)
		c.buf = nil
	}
}

// release gives back what an error has left.
func (r *recovery) release() {
	for _, c := range append(r.ahead, r.heap...) {
		if !c.busy {
			r.close(c)
		}
	}
}
