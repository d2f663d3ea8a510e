package plan

import "fmt"

// Costs are what pieces of work take of one core, in nanoseconds. An "id" is one of an
// example's, a "row" a distinct row of a worker's batch, pulled and pushed.
type Costs struct {
	ReadID       float64 `yaml:"read_id_ns" json:"read_id_ns"`             // reading, parsing, numbering
	ComputeFloat float64 `yaml:"compute_float_ns" json:"compute_float_ns"` // of an id's weights, forwards and back
	MultiplyAdd  float64 `yaml:"multiply_add_ns" json:"multiply_add_ns"`   // of a dense layer, forwards and back
	// BetweenFloat is of an activation or its gradient that goes from a worker to a dense rank
	// or back: it is written to memory, copied and read, where a worker that computes both
	// halves has it in a cache.
	BetweenFloat float64 `yaml:"between_float_ns" json:"between_float_ns"`
	WorkerRow    float64 `yaml:"worker_row_ns" json:"worker_row_ns"`
	WorkerFloat  float64 `yaml:"worker_float_ns" json:"worker_float_ns"`
	WorkerStep   float64 `yaml:"worker_step_ns" json:"worker_step_ns"` // of a step, whatever is in it
	ServerRow    float64 `yaml:"server_row_ns" json:"server_row_ns"`
	ServerFloat  float64 `yaml:"server_float_ns" json:"server_float_ns"` // of a row, or a dense parameter
	ServerStep   float64 `yaml:"server_step_ns" json:"server_step_ns"`   // of one worker's step
	// SocketByte is what tcp takes for a byte, at each end; verbs and shm take none.
	SocketByte float64 `yaml:"socket_byte_ns" json:"socket_byte_ns"`
	// DiskRow is what a row takes that comes from an SSD.
	DiskRow float64 `yaml:"disk_row_ns" json:"disk_row_ns"`
}

func (c Costs) validate() error {
	for _, v := range []float64{c.ReadID, c.ComputeFloat, c.MultiplyAdd, c.BetweenFloat, c.WorkerRow, c.WorkerFloat, c.WorkerStep, c.ServerRow, c.ServerFloat, c.ServerStep, c.SocketByte, c.DiskRow} {
		if !(v >= 0 && v < 1e12) {
			return fmt.Errorf("costs: %v ns, must be from 0 to 1e12", v)
		}
	}
	return nil
}
