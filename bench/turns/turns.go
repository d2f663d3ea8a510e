package turns

import (
	"context"
	"fmt"
	"slices"

	"psrt/bench/report"
)

// Took is what one turn of a loop cost, in seconds.
type Took struct {
	// Wall is the time, as of one loop: where several threads play, the
	// messages of all of them divided by the sum of their rates.
	Wall float64
	CPU  float64 // of all threads
}

// Loop plays one round and says what it took. Both loops are given the same
// number for the same round: 0 for the warm-up, then 1 and so on.
type Loop func(ctx context.Context, round int) (Took, error)

// Game is a loop beside its limit.
type Game struct {
	Op       string
	Bytes    int // of one message
	Messages int // of a round
	Rounds   int
	Cold     bool // no warm-up
	Ours     Loop
	Limit    Loop
}

// Play lets them take turns. Checksum is left to the caller.
func (g *Game) Play(ctx context.Context) (report.Row, error) {
	row := report.Row{Op: g.Op, Bytes: g.Bytes, Iterations: g.Messages * g.Rounds}
	var reached, limits, ratios []float64
	cpu := 0.0
	first := 0
	if g.Cold {
		first = 1
	}
	for round := first; round <= g.Rounds; round++ {
		var took [2]Took
		for turn := range 2 {
			if err := context.Cause(ctx); err != nil {
				return row, err
			}
			who := (round + turn) % 2
			loop, name := g.Ours, g.Op
			if who == 1 {
				loop, name = g.Limit, g.Op+": limit"
			}
			var err error
			if took[who], err = loop(ctx, round); err != nil {
				return row, fmt.Errorf("%s: %w", name, err)
			}
			if !(took[who].Wall > 0) {
				return row, fmt.Errorf("%s: %d messages of %d bytes took %g s, less than the clock sees; play more a round", name, g.Messages, g.Bytes, took[who].Wall)
			}
		}
		if round == 0 {
			continue
		}
		gb := float64(g.Messages) * float64(g.Bytes) / 1e9
		reached, limits = append(reached, gb/took[0].Wall), append(limits, gb/took[1].Wall)
		ratios = append(ratios, took[1].Wall/took[0].Wall)
		cpu += took[0].CPU / gb
	}
	avg := Median(reached)
	row.Bandwidth = &report.Bandwidth{Avg: avg, Peak: slices.Max(reached), Rate: avg * 1e3 / float64(g.Bytes)}
	row.Limit, row.Ratio = Median(limits), Median(ratios)
	row.CPUSecondsPerGB, row.Load = cpu/float64(g.Rounds), report.Load()
	return row, nil
}

// Median of v, which is not empty.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Note says how the columns are to be read.
const Note = "loop and limit take turns; bandwidths and rates are the medians of the rounds, ratio is the median of the rounds' ratios"
