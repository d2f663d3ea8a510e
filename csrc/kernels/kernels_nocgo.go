//go:build !cgo

package kernels

// Best is the fastest level of this build and CPU.
func Best() Level { return Go }

func (Level) gather(dst []float32, step, dim int, rows *Rows, ids []uint32) {
	plainGather(dst, step, dim, rows, ids)
}

func (Level) update(rule *Rule, dim int, rows *Rows, ids []uint32, grads []float32) int {
	return plainUpdate(rule, dim, rows, ids, grads)
}

func (Level) updateInto(rule *Rule, dst, w, state, grad []float32) int {
	return plainUpdateInto(rule, dst, w, state, grad)
}

func (Level) gatherParts(p *Parts, dst []float32, step int, rows *Rows, ids []uint32) {
	plainGatherParts(p, dst, step, rows, ids)
}

func (Level) updateParts(p *Parts, rows *Rows, ids []uint32, push []float32) int {
	return plainUpdateParts(p, rows, ids, push)
}

func (Level) lagging(p *Parts, rows *Rows, ids, out []uint32) int {
	return plainLagging(p, rows, ids, out)
}

func (Level) treeSumRows(dst []float32, dim, rows int, srcs [][]float32, idx [][]int32, merges []Merge) int {
	return plainSumRows(dst, dim, rows, srcs, idx, merges)
}

func (Level) treeSum(dst []float32, srcs [][]float32, merges []Merge) { plainSum(dst, srcs, merges) }

func (Level) sum(dst []float32, srcs [][]float32) { plainAdd(dst, srcs) }

func (Level) scan(src []float32) float32 { return plainScan(src) }
