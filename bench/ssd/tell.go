package ssd

import (
	"fmt"
	"slices"

	"psrt/bench/report"
	"psrt/bench/turns"
)

// tell makes rows and notes of an operation's rounds.
func (r *run) tell(o *operation, counted []turn, sum uint32) {
	asked := float64(r.cfg.Batches * r.cfg.Keys)
	bytes := asked * float64(r.cfg.RowBytes)
	var mine float64
	for i, s := range r.sides {
		var speed, limit, ratio, cpu []float64
		did := counters{}
		for _, t := range counted {
			x := t.sides[i]
			speed, limit = append(speed, bytes/x.wall/1e9), append(limit, bytes/max(t.limit, 1e-9)/1e9)
			ratio, cpu = append(ratio, t.limit/x.wall), append(cpu, x.cpu)
			did.reads, did.readRows, did.written = did.reads+x.did.reads, did.readRows+x.did.readRows, did.written+x.did.written
		}
		rounds := float64(len(counted))
		rate := turns.Median(speed) * 1e9 / float64(r.cfg.RowBytes)
		micros := turns.Median(cpu) / asked * 1e6
		r.out.Rows = append(r.out.Rows, report.Row{
			Op: fmt.Sprintf("%s, %s", o.name, s.name()), Bytes: r.cfg.RowBytes, Iterations: int(asked * rounds),
			Bandwidth: &report.Bandwidth{Avg: turns.Median(speed), Peak: slices.Max(speed), Rate: rate / 1e6},
			Limit:     turns.Median(limit), Ratio: turns.Median(ratio), CPUSecondsPerGB: turns.Median(cpu) / (bytes / 1e9),
			Load: report.Load(), Checksum: fmt.Sprintf("%08x", sum),
		})
		text := fmt.Sprintf("%s, %s: %.1f thousand rows/s, %.2f us CPU a row", o.name, s.name(), rate/1e3, micros)
		if did.readRows > 0 {
			part := float64(did.readRows) / (asked * rounds)
			text += fmt.Sprintf(", %.1f %% of the rows from disk, %.2f us CPU each, %.3f of the limit", 100*part, micros/part, turns.Median(ratio))
		}
		if o.writes {
			c := s.counters()
			text += fmt.Sprintf(", %.2f bytes written to disk for each of a row, %.2f of the rows' bytes on disk", float64(did.written)/(bytes*rounds), float64(c.diskBytes)/float64(r.cfg.payload()))
			if c.debt > 0 {
				text += fmt.Sprintf(", %d MB still to be merged", c.debt/1e6)
			}
		}
		r.note("%s", text)
		if i == 0 {
			mine = rate
			r.rates[o.name] = rate
			continue
		}
		r.note("%s: psrt is %.1f times as fast as %s", o.name, mine/rate, s.name())
	}
	r.tellLimit(o, counted)
}

// tellLimit says what the disk alone did.
func (r *run) tellLimit(o *operation, counted []turn) {
	if o.blind {
		return
	}
	pick := func(f func(t *turn) float64) float64 {
		var v []float64
		for i := range counted {
			v = append(v, f(&counted[i]))
		}
		return turns.Median(v)
	}
	text := fmt.Sprintf("%s, the disk alone: %.1f thousand reads/s by a bare ring, %.2f us CPU each", o.name,
		pick(func(t *turn) float64 { return t.ring.perSecond })/1e3, pick(func(t *turn) float64 { return t.ring.micros }))
	if r.raw.noFio {
		text += "; fio is not installed"
	} else {
		text += fmt.Sprintf(", %.1f by fio, %.2f us", pick(func(t *turn) float64 { return t.fio.perSecond })/1e3, pick(func(t *turn) float64 { return t.fio.micros }))
	}
	r.note("%s", text)
}
