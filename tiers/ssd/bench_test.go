package ssd

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"psrt/tiers/blk"
)

func benchStore(b *testing.B, rows int) *rig {
	dir := os.Getenv("PSRT_SSD_DIR")
	if dir == "" {
		dir = b.TempDir()
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		b.Fatal(err)
	}
	r := newRig(b, 256)
	r.mustOpen(Config{Scratch: true}, d)
	row := make([]byte, 256)
	for k := range uint64(rows) {
		if err := r.retry(func() error {
			slot, err := r.owners[0].log.Append(k, row)
			r.owners[0].rows[k] = place{slot: slot}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	r.s.flush(kindFresh)
	for r.s.busy() {
		r.poll()
	}
	b.ResetTimer()
	return r
}

// BenchmarkAppend is blind updates as the disk takes them.
func BenchmarkAppend(b *testing.B) {
	r := benchStore(b, 0)
	row := make([]byte, 256)
	log := r.owners[0].log
	slots := make([]uint32, 1<<17)
	for i := range slots {
		slots[i] = NoSlot
	}
	busy := 0
	for i := 0; i < b.N; {
		k := rand.IntN(len(slots))
		slot, err := log.Append(uint64(k), row)
		if err == ErrBusy {
			busy++
			r.s.Poll()
			_ = r.s.Wait(time.Now().Add(time.Second))
			continue
		}
		if err != nil {
			b.Fatal(err)
		}
		if slots[k] != NoSlot {
			log.Free(slots[k])
		}
		slots[k] = slot
		r.owners[0].rows[uint64(k)] = place{slot: slot}
		if i++; i%32 == 0 {
			r.s.Poll()
		}
	}
	b.ReportMetric(float64(busy)/float64(b.N), "busy/op")
	r.close()
}

// BenchmarkRead is rows at random, 128 in flight.
func BenchmarkRead(b *testing.B) {
	const rows = 400000
	r := benchStore(b, rows)
	log := r.owners[0].log
	dst := make([]byte, 128*256)
	flight := 0
	rs := make([]Read, 0, 32)
	free := make([]uint64, 128)
	for i := range free {
		free[i] = uint64(i)
	}
	for done := 0; done < b.N; {
		rs = rs[:0]
		for len(free) > 0 && len(rs) < 32 {
			id := free[len(free)-1]
			free = free[:len(free)-1]
			k := uint64(rand.IntN(rows))
			rs = append(rs, Read{Key: k, Slot: r.owners[0].rows[k].slot, ID: id, Dst: dst[id*256:][:256]})
		}
		if len(rs) > 0 {
			flight += log.Read(rs)
		}
		ev := r.s.Poll()
		for _, d := range ev.Reads {
			if d.Err != nil {
				b.Fatal(d.Err)
			}
			free = append(free, d.ID)
			flight--
			done++
		}
		if len(ev.Reads) == 0 {
			_ = r.s.Wait(time.Now().Add(time.Second))
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	r.close()
}

// BenchmarkIdle is Poll with nothing to do.
func BenchmarkIdle(b *testing.B) {
	r := benchStore(b, 1000)
	for range b.N {
		r.s.Poll()
	}
	r.close()
}
