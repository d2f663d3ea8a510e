package settle

// Nodes are the NUMA nodes on whose CPUs the stages of a worker run; -1: anywhere.
type Nodes struct {
	Read    int // takes text off disks
	Parse   int // makes rows of it
	Compute int
}

// Affine puts stages beside what they touch most. The worker's node has its memory:
// rows, gradients, values, and there the text is made into rows and they are computed.
// Whoever reads stays at the disks, where their interrupts and the pages of the files
// are, if all disks are attached to one node; -1 in disks is one that does not say. A
// node without CPUs has memory alone.
func Affine(worker int, disks []int, cpus func(node int) int) Nodes {
	if worker < 0 || cpus(worker) == 0 {
		return Nodes{-1, -1, -1}
	}
	read := worker
	for i, d := range disks {
		if d < 0 || d != disks[0] || cpus(d) == 0 {
			read = worker
			break
		}
		if i == 0 {
			read = d
		}
	}
	return Nodes{read, worker, worker}
}
