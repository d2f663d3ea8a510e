//go:build !cgo

package fold

// Best is the fastest level of this build and CPU.
func Best() Level { return Go }

func (Level) run(j *Job, p *plan, dsts [][]byte) { plainRun(j, p, dsts) }
