package ssd

import (
	"fmt"
	"time"

	"psrt/tiers/blk"
)

const (
	maxWrites = 16 // in flight on a device, so that reads find room
	maxSubmit = 32 // requests a system call
)

// disk is one device with its buffers and what waits for it.
type disk struct {
	s     *Store
	dev   blk.Device
	index int
	depth int

	chunks     [][]byte // free write buffers
	units      [][]byte // free read buffers
	memory     int64
	chunkCount int

	reads, writes      queue
	inFlight, inWrites int
	heard              time.Time // when it last answered, or was asked while it owed nothing
	batch              []blk.Request
	results            []blk.Result
	refused            []blk.Result // by Submit

	extents    []*extent
	total      int // segments of all extents
	free       []uint32
	punched    []uint32 // free ones that take no room
	making     bool
	growFailed error
	failedAt   time.Time
	bad        int // writes that have failed one after the other
}

// extent is one file of segments.
type extent struct {
	d        *disk
	name     string
	file     int
	first    uint32
	count    int
	unsynced bool
}

func newDisk(s *Store, index int, dev blk.Device, bufferBytes int) (*disk, error) {
	d := &disk{s: s, dev: dev, index: index, depth: dev.Depth(), results: make([]blk.Result, 64)}
	units := max(4, min(d.depth, bufferBytes/3/unitBytes))
	chunks := (bufferBytes - units*unitBytes) / chunkBytes
	arena, err := dev.Buffers(units*unitBytes + chunks*chunkBytes)
	if err != nil {
		return nil, fmt.Errorf("ssd: buffers of %d bytes for %v: %w", units*unitBytes+chunks*chunkBytes, dev, err)
	}
	d.memory, d.chunkCount = int64(len(arena)), chunks
	for range chunks {
		d.chunks = append(d.chunks, arena[:chunkBytes:chunkBytes])
		arena = arena[chunkBytes:]
	}
	for range units {
		d.units = append(d.units, arena[:unitBytes:unitBytes])
		arena = arena[unitBytes:]
	}
	return d, nil
}

// takeChunk gives a write buffer, or nil. Those who make room again (kept) leave
// none behind; the others leave two.
func (d *disk) takeChunk(kept int) []byte {
	n := len(d.chunks)
	if n <= kept {
		return nil
	}
	b := d.chunks[n-1]
	d.chunks = d.chunks[:n-1]
	return b
}

// writable is false once too many writes have failed.
func (d *disk) writable() bool { return d.bad < badWrites }

func (d *disk) giveChunk(b []byte) { d.chunks = append(d.chunks, b) }

// send queues a request that is no read of rows. then is called once, inside
// Poll.
func (d *disk) send(req blk.Request, then func(blk.Result)) {
	o := d.s.newOp()
	req.ID = o.req.ID
	o.req, o.then = req, then
	d.writes.push(o)
}

// pump submits what the device takes.
func (d *disk) pump() {
	for d.reads.len()+d.writes.len() > 0 {
		b := d.batch[:0]
		room := min(maxSubmit, d.depth-d.inFlight)
		w := min(d.writes.len(), maxWrites-d.inWrites, room)
		for _, o := range d.writes.ids[d.writes.head : d.writes.head+w] {
			b = append(b, o.req)
		}
		for _, o := range d.reads.ids[d.reads.head:] {
			if len(b) >= room || !d.lend(o) {
				break
			}
			b = append(b, o.req)
		}
		d.batch = b
		if len(b) == 0 {
			return
		}
		n, err := d.dev.Submit(b)
		if d.inFlight == 0 {
			d.heard = time.Now()
		}
		d.inFlight += n
		d.inWrites += min(n, w)
		d.writes.drop(min(n, w))
		d.reads.drop(max(0, n-w))
		if err != nil {
			d.refuse(n, w, err)
			continue
		}
		if n < len(b) {
			return
		}
	}
}

// refuse takes the request at n of the batch, of which the first w are writes,
// out of its queue and ends it at the next Poll.
func (d *disk) refuse(n, w int, err error) {
	d.refused = append(d.refused, blk.Result{ID: d.batch[n].ID, Err: err})
	if n < w {
		d.writes.drop(1)
		d.inWrites++
	} else {
		d.reads.drop(1)
	}
	d.inFlight++
}

// lend gives a read of rows its buffer.
func (d *disk) lend(o *op) bool {
	if o.req.Buf != nil {
		return true
	}
	n := int(o.req.Len)
	if n > unitBytes {
		b := d.takeChunk(2)
		if b == nil {
			return false
		}
		o.req.Buf = b[:n]
	} else {
		k := len(d.units)
		if k == 0 {
			return false
		}
		o.req.Buf = d.units[k-1][:n]
		d.units = d.units[:k-1]
	}
	o.req.Len = 0
	return true
}

// unlend takes a read's buffer back.
func (d *disk) unlend(b []byte) {
	if cap(b) == chunkBytes {
		d.giveChunk(b[:chunkBytes])
	} else {
		d.units = append(d.units, b[:unitBytes])
	}
}

// reap handles what the device has done; it says whether there was anything.
func (d *disk) reap() bool {
	any := false
	for d.inFlight > 0 {
		n := copy(d.results, d.refused)
		d.refused = append(d.refused[:0], d.refused[n:]...)
		if n == 0 {
			n = d.dev.Poll(d.results)
		}
		if n > 0 {
			d.heard = time.Now()
		}
		for _, r := range d.results[:n] {
			d.end(r)
		}
		any = any || n > 0
		if n < len(d.results) && len(d.refused) == 0 {
			return any
		}
	}
	return any
}

func (d *disk) end(r blk.Result) {
	if r.ID >= uint64(len(d.s.ops)) {
		return // no request of ours
	}
	o := d.s.ops[r.ID]
	d.inFlight--
	if o.then == nil {
		d.s.endRead(d, o, r)
		return
	}
	d.inWrites--
	then := o.then
	d.s.endOp(o)
	then(r)
}
