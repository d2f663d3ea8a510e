package pipeline

import (
	"context"
	"fmt"

	"psrt/sched/train"
)

// ratios are workers and dense ranks, as many of either as one likes.
var ratios = [][2]int{{1, 1}, {2, 1}, {1, 2}, {3, 2}}

// Layers, and floats of a row, that take about as long as each other; and epochs, for a
// training of some hundred milliseconds.
var halvedHidden = []int{64, 32}

const (
	halvedDim    = 16
	halvedEpochs = 5
)

// halves compares jobs whose layers have ranks of their own: the model in bsp, and how much
// of the time each kind of rank computes.
func halves(ctx context.Context, c *Config) (notes []string, err error) {
	base, err := small(ctx, c)
	if err != nil {
		return nil, err
	}
	base.Model.Hidden, base.Model.Dim, base.Epochs = halvedHidden, halvedDim, halvedEpochs
	one, err := layout(base, 1, 1, 0).run(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range ratios {
		for _, sync := range []string{train.BSP, train.ASP} {
			j := layout(base, r[0], 1, r[1])
			j.Sync = sync
			res, err := j.run(ctx)
			if err != nil {
				return nil, err
			}
			if sync == train.BSP && res.Digest != one.Digest {
				return nil, fmt.Errorf("pipeline: bsp with %d workers and %d dense ranks has digest %s, one process %s", r[0], r[1], res.Digest, one.Digest)
			}
			h := res.Heter
			notes = append(notes, fmt.Sprintf("heter, %d workers and %d dense ranks, %s: %.0f examples/s, %.2f of one process in bsp; workers compute %.3f of the time and wait for gradients %.3f, dense ranks compute %.3f",
				r[0], r[1], sync, res.ExamplesPerS, res.ExamplesPerS/one.ExamplesPerS, h.WorkersBusy, h.WorkersWait, h.DenseBusy))
		}
	}
	return append(notes, fmt.Sprintf("heter: in bsp all of these have the digest of one process, %.16s; ranks are goroutines of one process here", one.Digest)), nil
}
