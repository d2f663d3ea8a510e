package server

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"psrt/rdma/mem"
	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

const (
	// cutChunk is how many rows go to the writer at a time. There are so many chunks
	// between it and the lane that they hold cutBytes: where processors are scarce
	// each is at work for a while before it is the other's turn.
	cutChunk  = 256
	cutBytes  = 4 << 20
	leastCuts = 8
	mostCuts  = 128
	// idleChunks is what a lane gives between two looks at its queues; busyChunks,
	// after one at which it found something else to do: some tens of microseconds.
	idleChunks = 8
	busyChunks = 1
)

// errCutGivenUp is what a cut's writer finds when its lane has done so.
var errCutGivenUp = errors.New("server: the checkpoint's cut was given up")

// cutting is a lane's part of a consistent cut on its way into a checkpoint. The
// lane takes it between two steps, and gives the rows bit by bit, between
// requests; a writer's goroutine takes them to the disk.
type cutting struct {
	step  uint64
	delta bool
	order uint64 // among what waits for a step
	// serving and scores are cuts for something else than going on from.
	serving, scores bool

	// The lane's.
	taken  bool
	tables []*tableState
	at     int // of tables, being given

	out, free chan *chunk
	done      chan struct{} // closed when the lane has given the cut up
	failed    atomic.Bool   // the writer has

	// Written by the lane before the first chunk.
	specs []table.Spec
	holds []int64 // rows there are, by table; -1: not known
	dense denseCut
	memos map[uint32]accessor.Memo
	count map[uint32]*accessor.Scores
	// graves are rows that are gone, of a delta for serving, by table; the lane's.
	graves map[uint32][]uint64
	leads  []psmsg.Lead
	pause  time.Duration // that the lane took for it
}

// chunk is some rows of one table.
type chunk struct {
	table int
	keys  []uint64
	rows  []float32
	gone  []uint64 // deleted since the last cut
	end   bool     // the table's last; of no table: there is nothing else
	err   error
}

func newCutting(req psmsg.CutRequest, rowBytes int) *cutting {
	chunks := min(max(cutBytes/(cutChunk*max(rowBytes, 1)), leastCuts), mostCuts)
	c := &cutting{step: req.Step, delta: req.Delta, serving: req.Serving, scores: req.Scores, out: make(chan *chunk, chunks), free: make(chan *chunk, chunks), done: make(chan struct{})}
	for range chunks {
		c.free <- &chunk{}
	}
	return c
}

// arm has the lane take a cut when it is there.
func (l *lane) arm(c *cutting) {
	l.endCut(false)
	c.order = l.nextOrder()
	l.cut = c
	l.settle()
}

// beforeStep lets happen what a step that is about to be applied must not precede.
func (l *lane) beforeStep(step uint64) {
	l.between(func(at uint64) bool { return step >= at })
}

// afterSteps lets happen what waits for no step any more.
func (l *lane) afterSteps() {
	if (l.cut == nil || l.cut.taken) && len(l.lives.waiting) == 0 {
		return
	}
	l.between(func(at uint64) bool {
		if l.clock.Min() < at {
			return false
		}
		early := func(r *request) bool { return r.Clock < at }
		return !slices.ContainsFunc(l.dense.held, early) && !slices.ContainsFunc(l.order, func(t *tableState) bool { return slices.ContainsFunc(t.held, early) })
	})
}

func (l *lane) takeCut() {
	c, start := l.cut, time.Now()
	c.taken = true
	c.tables = slices.Clone(l.order)
	for i, t := range c.tables {
		if err := l.cutTable(c, t); err != nil {
			c.tables, c.at = c.tables[:i], i
			c.give(&chunk{err: err})
			return
		}
		c.specs = append(c.specs, t.spec)
		c.holds = append(c.holds, l.holds(c, t))
	}
	if !c.scores {
		c.dense = l.dense.cut()
	}
	c.leads = l.leadsAt(c.step)
	c.pause = time.Since(start)
	if len(c.tables) == 0 {
		c.give(&chunk{end: true})
	}
}

// holds is how many rows the whole model has here; -1 where some may have ended and
// are not swept yet, or not all are given.
func (l *lane) holds(c *cutting, t *tableState) int64 {
	if c.serving || c.scores || t.spec.Lifecycle != nil {
		return -1
	}
	return int64(t.rows.Len())
}

// give never waits: there are as many places as chunks, and one more is made only
// where nothing follows.
func (c *cutting) give(k *chunk) {
	select {
	case c.out <- k:
	default:
		c.failed.Store(true)
	}
}

// giveCut gives some rows of a cut to its writer, and returns whether there were
// any.
func (l *lane) giveCut(busy bool) (gave bool) {
	c := l.cut
	if c == nil || !c.taken || c.at == len(c.tables) || c.failed.Load() {
		return false
	}
	chunks := idleChunks
	if busy {
		chunks = busyChunks
	}
	for ; chunks > 0 && c.at < len(c.tables); chunks-- {
		var k *chunk
		select {
		case k = <-c.free:
		default:
			return gave // the writer is behind, and wakes the lane
		}
		t := c.tables[c.at]
		k.table, k.keys, k.rows, k.gone = c.at, k.keys[:0], k.rows[:0], k.gone[:0]
		if k.gone = append(k.gone, c.takeGraves(t)...); len(k.gone) > 0 {
			k.end, k.err = false, nil
			c.give(k)
			gave = true
			continue
		}
		looked := 0
		more, err := t.rows.Next(cutChunk, func(key uint64, row []float32, deleted bool) error {
			looked++
			switch {
			case c.serving || c.scores:
				c.serve(t, k, key, row, deleted)
			case deleted:
				k.gone = append(k.gone, key)
			default:
				k.keys, k.rows = append(k.keys, key), append(k.rows, row...)
			}
			return nil
		})
		t.stir(l)
		if err == nil && more && looked == 0 {
			c.free <- k
			if t.inMemory { // all that it looked at had ended
				gave = true
				continue
			}
			return gave // a disk is behind
		}
		k.end, k.err = !more, err
		switch {
		case err != nil:
			c.at = len(c.tables)
		case !more:
			c.at++
		}
		c.give(k)
		gave = true
	}
	return gave
}

// endCut forgets a cut, done or not.
func (l *lane) endCut(committed bool) {
	c := l.cut
	if c == nil {
		return
	}
	l.cut = nil
	close(c.done)
	if c.taken {
		for _, t := range c.tables {
			t.rows.CutDone(committed && !c.serving && !c.scores)
		}
	}
}

// denseCut is a copy of a lane's part of the dense vector.
type denseCut struct {
	blocks        []densemap.Block
	values, state [][]float32
}

// cut copies what there is: it is small beside the rows.
func (d *denseState) cut() denseCut {
	c := denseCut{blocks: d.blocks}
	for i := range d.blocks {
		c.values = append(c.values, slices.Clone(d.vector.Values(i)))
		c.state = append(c.state, slices.Clone(d.vector.State(i)))
	}
	return c
}

// digest is the sum of the blocks' hashes.
func (c denseCut) digest() table.Digest {
	var sum table.Digest
	for i, b := range c.blocks {
		sum.Add(blockDigest(b, c.values[i], c.state[i]))
	}
	return sum
}

func blockDigest(b densemap.Block, values, state []float32) table.Digest {
	h := sha256.New()
	var head [12]byte
	binary.LittleEndian.PutUint32(head[:], denseTable)
	binary.LittleEndian.PutUint64(head[4:], uint64(b.Index))
	h.Write(head[:])
	h.Write(mem.Bytes(values))
	h.Write(mem.Bytes(state))
	return table.Digest(h.Sum(nil))
}
