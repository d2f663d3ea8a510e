package discover

import "strings"

// Distances between NUMA nodes in the manner of the kernel's table, where it
// is not given: a node to itself, to or from an unknown one, to another.
const (
	sameNode    = 10
	unknownNode = 15
	otherNode   = 20
)

// nodeDistance is 0 where no node is wanted, so that nothing depends on it.
func (in *Input) nodeDistance(node int) int {
	switch {
	case in.NUMANode < 0:
		return 0
	case node < 0:
		return unknownNode
	case in.NodeDistance != nil:
		return in.NodeDistance(in.NUMANode, node)
	case node == in.NUMANode:
		return sameNode
	}
	return otherNode
}

// farPCI is the distance of what shares no bus, or is on none.
const farPCI = 100

// PCIDistance counts the bridges from one device up to the common one and down
// to the other: 0 for functions of one card, 2 for cards below one switch.
// Paths are those of Device.PCI.
func PCIDistance(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	if a == "" || b == "" || x[0] != y[0] {
		return farPCI
	}
	common := 0
	for common < min(len(x), len(y)) && slot(x[common]) == slot(y[common]) {
		common++
	}
	return min(len(x)+len(y)-2*common, farPCI)
}

// slot is a PCI address without its function: 0000:3b:00.1 is 0000:3b:00.
func slot(address string) string {
	if at := strings.LastIndexByte(address, '.'); at >= 0 {
		return address[:at]
	}
	return address
}
