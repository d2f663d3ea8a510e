package ssd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"psrt/tiers/blk"
)

// polled is an owner that polls only when it has been told to: one that serves
// others, too, does not ask for ever. It fails where nobody would tell it.
type polled struct {
	*rig
	told bool
}

// wait is what an owner does that was told ErrBusy.
func (p *polled) wait() {
	p.t.Helper()
	due := p.told || len(p.s.early) > 0
	for _, d := range p.s.disks {
		due = due || d.inFlight > 0
	}
	if !due {
		p.t.Fatalf("the store is busy, with nothing under way: %s", p.state())
	}
	p.told = false
	p.poll()
}

func (p *polled) append(o *owner, key uint64) error {
	b := payload(make([]byte, o.bytes), key, 1)
	for range 100_000 {
		slot, err := o.log.Append(key, b)
		if errors.Is(err, ErrBusy) {
			p.wait()
			continue
		}
		if err != nil {
			return err
		}
		if old, ok := o.rows[key]; ok {
			o.log.Free(old.slot)
		}
		o.rows[key] = place{slot, 1}
		return nil
	}
	p.t.Fatalf("busy for ever: %s", p.state())
	return nil
}

// commit ends with a commit, or with why there is none.
func (p *polled) commit() error {
	p.t.Helper()
	for range 100_000 {
		failed := p.commits
		n, err := p.s.Commit(nil)
		if errors.Is(err, ErrBusy) {
			p.wait()
			continue
		}
		if err != nil {
			return err
		}
		for p.acked < n && p.commits == failed {
			p.wait()
		}
		if p.acked >= n {
			return nil
		}
	}
	p.t.Fatalf("busy for ever: %s", p.state())
	return nil
}

// TestBusyEnds: who is told ErrBusy is called, or a disk is at work for it, and it
// is taken or refused in the end, on stores of all sizes as they become full.
func TestBusyEnds(t *testing.T) {
	base := seed(t, 0)
	runs := uint64(30)
	if testing.Short() {
		runs = 5
	}
	for run := range runs {
		rng := rand.New(rand.NewPCG(base, run))
		var sizes []int
		for range 1 + rng.IntN(6) {
			sizes = append(sizes, []int{24, 68, 100, 260, 1000}[rng.IntN(5)])
		}
		var disks []*blk.Memory
		limit, room := int64(0), int64(8<<20+rng.IntN(16<<20))
		if rng.IntN(2) == 0 {
			limit, room = room, 1<<30
		}
		for range 1 + rng.IntN(2) {
			disks = append(disks, blk.NewMemory(blk.MemoryConfig{Bytes: room, Seed: rng.Uint64(), InOrder: rng.IntN(2) == 0}))
		}
		scratch := rng.IntN(2) == 0
		p := &polled{rig: newRig(t, sizes...)}
		p.mustOpen(Config{Limit: limit, Scratch: scratch, BufferBytes: []int{0, minChunks * chunkBytes * 2}[rng.IntN(2)]}, reopen(t, disks)...)
		p.s.OnResult(func() { p.told = true })
		full := 0
		for next := uint64(1); full < 20; {
			o := p.owners[rng.IntN(len(p.owners))]
			key := next
			switch rng.IntN(8) {
			case 0:
				p.told = false
				p.poll() // something else wanted it
				continue
			case 1, 2, 3:
				key = 1 + rng.Uint64N(next)
			case 4:
				if old, ok := o.rows[key/2]; ok {
					o.log.Free(old.slot)
					delete(o.rows, key/2)
				}
				continue
			case 5:
				if scratch || rng.IntN(500) > 0 {
					continue
				}
				key = 0
			default:
				next++
			}
			var err error
			if key == 0 {
				err = p.commit()
			} else {
				err = p.append(o, key)
			}
			if errors.Is(err, ErrFull) {
				full++
				for range rng.IntN(100) { // room for a few
					k := rng.Uint64N(next)
					if old, ok := o.rows[k]; ok {
						o.log.Free(old.slot)
						delete(o.rows, k)
					}
				}
				err = p.commit()
			}
			if (errors.Is(err, ErrFailed) && errors.Is(err, syscall.ENOSPC) || errors.Is(err, ErrFull)) && limit == 0 {
				break // a file took the room that a free segment had given back
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		p.close()
	}
}

func (p *polled) state() string {
	s := p.s
	out := fmt.Sprintf("idle %v seen %d wants %v used %d soft %d hard %d free %d spare %d total %d limit %d planned %d sealed %d", s.compact.idle, s.compact.seen, s.wantsVictims(), s.used, s.soft(), s.hard(), s.freeSegments(), s.spare(), s.total, s.limitSegments, s.planned, s.sealedCount)
	out += fmt.Sprintf(" returning %d running %v queued %v pressed %v dying %d rescues %d told %v wantsRoom %v", s.returning, s.commits.running != nil, s.commits.queued != nil, s.commits.pressed, len(s.commits.dying), len(s.rescues), p.told, s.wantsRoom())
	for _, j := range s.compact.jobs {
		out += fmt.Sprintf("; job of segment %d: left %d, starved %v, has a buffer %v", j.seg, j.left, j.starved, j.buf != nil)
	}
	for _, d := range s.disks {
		out += fmt.Sprintf("; disk %d: %d reads and %d writes wait, %d in flight, buffers %d of %d, making %v, failed %v", d.index, d.reads.len(), d.writes.len(), d.inFlight, len(d.chunks), d.chunkCount, d.making, d.growFailed)
	}
	return out
}
