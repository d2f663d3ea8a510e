package train

import (
	"psrt/sched/dataset"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// pushes gives what a leaf sends for its rows: the gradients, and with a lifecycle
// slot, show and click before each. Every occurrence of a feature is a show, and
// in an example with a positive label a click.
//
// A lifecycle divides gradients by shows; that of the mean over the global batch
// is then taken times the batch, so that what is left is the mean over shows.
func pushes(spec *table.Spec, b *dataset.Batch, occ []int32, g *model.LeafGrad, rows int, buf []float32) []float32 {
	if spec.Lifecycle == nil {
		return g.Rows
	}
	dim, width := spec.Dim, spec.PushFloats()
	buf = grow(buf, len(g.Rows)/dim*width)
	scale := float32(1)
	if spec.Lifecycle.ShowScale {
		scale = float32(rows)
	}
	for u := range len(g.Rows) / dim {
		to := buf[u*width : (u+1)*width]
		clear(to[:table.PushCounts])
		for i, x := range g.Rows[u*dim : (u+1)*dim] {
			to[table.PushCounts+i] = x * scale
		}
	}
	for e, label := range b.Labels {
		for o := b.Offsets[e]; o < b.Offsets[e+1]; o++ {
			to := buf[int(occ[o])*width:]
			if len(b.Fields) > 0 {
				to[0] = float32(b.Fields[o])
			}
			to[1]++
			if label > 0 {
				to[2]++
			}
		}
	}
	return buf
}
