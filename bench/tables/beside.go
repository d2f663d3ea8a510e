package tables

import (
	"context"
	"fmt"
	"time"

	"psrt/bench/turns"
)

// beside lets look-up and gather take turns, in one lane, with a gather of rows
// whose numbers are known already, and with a Go map from keys to rows. It tells
// how many times as long as each of them ours takes.
func (r *run) beside(ctx context.Context, dim int) (string, error) {
	l := r.lanes[0]
	t := l.sides[mine].(*ours).t
	rows := make(map[uint64][]float32, l.n)
	slab := make([]float32, l.n*dim)
	for at := 0; at < l.n; at += r.cfg.Keys {
		b := l.b
		b.keys, b.places = b.keys[:min(len(b.keys), l.n-at)], b.places[:min(len(b.places), l.n-at)]
		l.batch(l.order, at, &b)
		if err := l.sides[mine].pull(b.keys, b.rows[:len(b.keys)], b.dst[:len(b.keys)*dim]); err != nil {
			return "", err
		}
		for i, k := range b.keys {
			row := slab[(at+i)*dim:][:dim]
			copy(row, b.dst[i*dim:])
			rows[k] = row
		}
	}
	var known, mapped []float64
	b := l.b
	for round := range r.cfg.Rounds + 1 {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		var took [3]time.Duration
		for i := range r.cfg.Batches {
			l.batch(l.walk, (round*r.cfg.Batches+i)*r.cfg.Keys, &b)
			start := time.Now()
			for j, k := range b.keys {
				copy(b.dst[j*dim:(j+1)*dim], rows[k])
			}
			took[2] += time.Since(start)
			// The map's batch has left the rows' and the index's lines alone, but
			// not the next one's: each of ours is of keys that nobody asked for.
			l.batch(l.walk, (round*r.cfg.Batches+i)*r.cfg.Keys+l.n/2, &b)
			start = time.Now()
			if err := l.sides[mine].pull(b.keys, b.rows, b.dst); err != nil {
				return "", err
			}
			took[0] += time.Since(start)
			l.batch(l.walk, (round*r.cfg.Batches+i)*r.cfg.Keys+l.n/4, &b)
			if err := l.sides[mine].find(b.keys, b.rows); err != nil {
				return "", err
			}
			start = time.Now()
			t.Gather(b.rows, b.dst)
			took[1] += time.Since(start)
		}
		if round > 0 {
			known, mapped = append(known, took[0].Seconds()/took[1].Seconds()), append(mapped, took[0].Seconds()/took[2].Seconds())
		}
	}
	return fmt.Sprintf("rows of %d floats: look-up and gather take %.2f times as long as a gather of rows whose numbers are known, and %.3f of what a Go map takes",
		dim, turns.Median(known), turns.Median(mapped)), nil
}
