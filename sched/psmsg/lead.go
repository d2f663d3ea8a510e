package psmsg

// Lead is what a lane's state at a cut has beyond the cut's step, where workers
// need not keep step: all pushes of Worker to Table (DenseLead: the dense values)
// for the Steps steps from there on.
type Lead struct {
	Lane   int    `json:"lane"`
	Table  uint32 `json:"table"`
	Worker int    `json:"worker"`
	Steps  uint64 `json:"steps"`
}

// DenseLead is the table that stands for the dense values.
const DenseLead = ^uint32(0)
