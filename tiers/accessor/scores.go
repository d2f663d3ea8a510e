package accessor

import (
	"encoding/json"
	"fmt"
	"math"

	"psrt/tiers/table"
)

// Scores counts rows by score, in steps of a 64th of an octave, so that lanes and
// servers can agree on what a table's capacity cuts off without sorting rows.
// The zero value is empty.
type Scores struct {
	counts []uint64 // by the upper bits of a score, which order as the scores do
	rows   uint64
}

const scoreShift = 52 - 6

func scoreStep(score float64) int {
	if !(score > 0) {
		return 0
	}
	return int(math.Float64bits(score) >> scoreShift)
}

// Add counts a row.
func (s *Scores) Add(score float64) {
	if s.counts == nil {
		s.counts = make([]uint64, 1<<(63-scoreShift))
	}
	s.counts[scoreStep(score)]++
	s.rows++
}

// Merge adds another lane's counts.
func (s *Scores) Merge(o *Scores) {
	for i, n := range o.counts {
		if n > 0 && s.counts == nil {
			s.counts = make([]uint64, len(o.counts))
		}
		if n > 0 {
			s.counts[i] += n
		}
	}
	s.rows += o.rows
}

// scoreCount is how many rows a step has, as it travels.
type scoreCount [2]uint64

// MarshalJSON writes the steps that have rows.
func (s *Scores) MarshalJSON() ([]byte, error) {
	steps := []scoreCount{}
	for i, n := range s.counts {
		if n > 0 {
			steps = append(steps, scoreCount{uint64(i), n})
		}
	}
	return json.Marshal(steps)
}

// UnmarshalJSON is MarshalJSON's inverse.
func (s *Scores) UnmarshalJSON(b []byte) error {
	var steps []scoreCount
	if err := json.Unmarshal(b, &steps); err != nil {
		return err
	}
	*s = Scores{counts: make([]uint64, 1<<(63-scoreShift))}
	for _, x := range steps {
		if x[0] >= uint64(len(s.counts)) {
			return fmt.Errorf("lifecycle: %d is no step of scores, there are %d", x[0], len(s.counts))
		}
		s.counts[x[0]] += x[1]
		s.rows += x[1]
	}
	return nil
}

// Rows is how many were counted.
func (s *Scores) Rows() uint64 { return s.rows }

// Keep is the score for Evict that leaves at most capacity rows, the best; 0
// where all may stay. Rows of one step stay or go together.
func (s *Scores) Keep(capacity uint64) (below float64) {
	if s.rows <= capacity {
		return 0
	}
	left := uint64(0)
	for i := len(s.counts) - 1; i >= 0; i-- {
		if left += s.counts[i]; left > capacity {
			return math.Float64frombits(uint64(i+1) << scoreShift)
		}
	}
	return 0
}

// TakeSlots writes the slots of merged pushes, whose sum says nothing: out is rows
// x width, and row r has the slot of its last source. index[s][r] is r's place in
// srcs[s], negative where it is not there; without a lifecycle nothing is to be
// done.
func TakeSlots(spec *table.Spec, out []float32, srcs [][]float32, index [][]int32) {
	if spec.Lifecycle == nil {
		return
	}
	width := spec.PushFloats()
	for s, src := range srcs {
		if src == nil {
			continue
		}
		for r, at := range index[s][:min(len(index[s]), len(out)/width)] {
			if at >= 0 {
				out[r*width] = src[int(at)*width]
			}
		}
	}
}
