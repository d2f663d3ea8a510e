package train

import (
	"errors"
	"path/filepath"
	"sync"

	"psrt/rdma/feature"
	"psrt/rdma/pin"
	"psrt/sched/pipe/settle"
)

// Stages whose threads are kept on CPUs.
const (
	stageRead = iota
	stageParse
	stageCompute
	heldStages
)

// Affinity is where the threads of a worker's stages run: CPUs as the kernel lists them.
type Affinity struct {
	Read    string `json:"read"`
	Parse   string `json:"parse"`
	Compute string `json:"compute"`
	// NotHeld is why threads run elsewhere all the same.
	NotHeld string `json:"not_held,omitempty"`
}

// affinity keeps the threads of a worker's stages where settle.Affine says. nil keeps
// none.
type affinity struct {
	cpus [heldStages][]int
	held func(cpus []int) error // pin.Hold, but in tests

	mu     sync.Mutex
	failed error
}

// newAffinity is that of a worker on a NUMA node, whose data lie at some places; nil
// where it may run anywhere.
func newAffinity(root feature.Root, node int, data []string) *affinity {
	if node < 0 {
		return nil
	}
	var disks []int
	for _, place := range data {
		at, err := root.FileNode(place)
		if err != nil { // a pattern
			at, _ = root.FileNode(filepath.Dir(place)) // -1 where there is none
		}
		disks = append(disks, at)
	}
	a := &affinity{held: pin.Hold}
	cpus := func(node int) []int {
		list, err := root.NodeCPUs(node)
		if err != nil {
			a.note(err)
		}
		return list
	}
	n := settle.Affine(node, disks, func(node int) int { return len(cpus(node)) })
	for stage, at := range [heldStages]int{stageRead: n.Read, stageParse: n.Parse, stageCompute: n.Compute} {
		if at >= 0 {
			a.cpus[stage] = cpus(at)
		}
	}
	return a
}

func (a *affinity) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = errors.Join(a.failed, err)
}

// hold is what a goroutine of a stage does first. A thread that cannot be kept there
// works, slower; the result says so.
func (a *affinity) hold(stage int) {
	if a == nil || a.cpus[stage] == nil {
		return
	}
	if err := a.held(a.cpus[stage]); err != nil {
		a.note(err)
	}
}

// reads is hold for dataset's goroutines.
func (a *affinity) reads(scans bool) {
	if scans {
		a.hold(stageRead)
	} else {
		a.hold(stageParse)
	}
}

// report is nil where nothing is kept anywhere.
func (a *affinity) report() *Affinity {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &Affinity{Read: feature.FormatList(a.cpus[stageRead]), Parse: feature.FormatList(a.cpus[stageParse]), Compute: feature.FormatList(a.cpus[stageCompute])}
	if a.failed != nil {
		r.NotHeld = a.failed.Error()
	}
	return r
}
