package job

import (
	"fmt"
	"strconv"

	"psrt/rdma/feature"
)

// NUMANode settles the --numa flag for one rank: "none" pins nothing, a number
// is a node, and "auto" deals the ranks round the nodes that have memory, so
// that servers do not all use one node's. On a machine with one node there is
// nothing to choose: -1.
func NUMANode(flag string, rank int, root feature.Root) (int, error) {
	nodes, err := root.Nodes()
	switch {
	case flag == "none":
		return -1, nil
	case flag == "auto":
		if err != nil || len(nodes) < 2 {
			return -1, nil
		}
		return nodes[rank%len(nodes)], nil
	}
	n, parseErr := strconv.Atoi(flag)
	if parseErr != nil || n < 0 {
		return -1, fmt.Errorf("job: NUMA node %q, want auto, none or a node's number", flag)
	}
	for _, have := range nodes {
		if n == have {
			return n, nil
		}
	}
	return -1, fmt.Errorf("job: NUMA node %d has no memory here; nodes with memory: %v", n, nodes)
}
