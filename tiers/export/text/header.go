package text

import (
	"encoding/json"
	"fmt"

	"psrt/tiers/table"
)

// Format is the version this package writes; it reads all up to it.
const Format = 1

const (
	magic   = "#psrt-text "
	endMark = "#end"
)

// Header is what a file is of: a table or a dense vector.
type Header struct {
	Table *table.Spec `json:"table,omitempty"`
	Dense *Dense      `json:"dense,omitempty"`
	// State says that rows and blocks have what stands behind the weights.
	State bool `json:"state"`
	// Lifecycle is what a table with one has been through, in its keeper's words.
	Lifecycle string `json:"lifecycle,omitempty"`
	// Model is the caller's, about the model that this is a part of.
	Model json.RawMessage `json:"model,omitempty"`
}

// Dense describes a dense vector.
type Dense struct {
	Name     string          `json:"name"`
	ID       uint32          `json:"id"`
	Elements int64           `json:"elements"`
	Spec     json.RawMessage `json:"spec,omitempty"` // the caller's
}

func (h *Header) validate() error {
	switch {
	case (h.Table == nil) == (h.Dense == nil):
		return fmt.Errorf("its header describes neither a table nor a dense vector, or both")
	case h.Table != nil:
		return h.Table.Validate()
	case h.Dense.Elements < 1:
		return fmt.Errorf("its dense vector has %d elements", h.Dense.Elements)
	}
	return nil
}

// floats is the length of a row.
func (h *Header) floats() int {
	if h.State {
		return h.Table.RowFloats()
	}
	return h.Table.Dim
}

// words is where in a row numbers end and words for machines begin.
func (h *Header) words() int {
	if h.Table.Lifecycle != nil {
		return h.Table.LifeAt()
	}
	return h.Table.Dim + h.Table.Optimizer.StateFloats(h.Table.Dim)
}
