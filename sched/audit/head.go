package audit

import (
	"encoding/json"
	"fmt"

	"psrt/sched/tree"
	"psrt/tiers/table"
)

// Header is what a file is of: the JSON in its first record.
type Header struct {
	Run  string  `json:"run"`  // the job, from its start to its end; a resumed one is another
	Rate float64 `json:"rate"` // share of keys
	Host string  `json:"host,omitempty"`

	// One of these.
	Worker *WorkerHeader `json:"worker,omitempty"`
	Lane   *LaneHeader   `json:"lane,omitempty"`
}

// WorkerHeader is a worker's.
type WorkerHeader struct {
	Worker int    `json:"worker"`
	Client uint64 `json:"client"` // whose sequences its pushes have
	// Kept is how many steps old a value may be that the worker kept; 0: it keeps none.
	Kept int `json:"kept,omitempty"`
}

// LaneHeader is a lane's: all that decides what its rows become.
type LaneHeader struct {
	Lane      int  `json:"lane"` // global
	Server    int  `json:"server"`
	Open      bool `json:"open,omitempty"` // workers come and go, and Workers is the most there may be
	Workers   int  `json:"workers"`
	Staleness int  `json:"staleness"` // 0 BSP, -1 ASP
	// Modes is the staleness of tables that have another one, by number.
	Modes  map[uint32]int `json:"modes,omitempty"`
	Merges []tree.Merge   `json:"merges"`
	Seed   uint64         `json:"seed"`
	Tables []table.Spec   `json:"tables"`
	Dense  Dense          `json:"dense,omitzero"`
}

// StalenessOf is a table's; DenseTable is the dense vector's number.
func (l *LaneHeader) StalenessOf(table uint32) int {
	if s, ok := l.Modes[table]; ok {
		return s
	}
	return l.Staleness
}

// Dense is a lane's part of the dense vector.
type Dense struct {
	Optimizer table.Optimizer `json:"optimizer"`
	EMA       float32         `json:"ema"`
	Blocks    []Block         `json:"blocks,omitempty"`
}

// Block is one of its blocks.
type Block struct {
	Index  int       `json:"index"`
	Floats int       `json:"floats"`
	Rule   string    `json:"rule"`
	Init   []float32 `json:"init"` // of the recorded elements
}

func (h *Header) validate() error {
	if _, err := NewSample(h.Rate); err != nil {
		return err
	}
	switch {
	case h.Run == "":
		return fmt.Errorf("audit: a file that does not say of which run it is")
	case (h.Worker == nil) == (h.Lane == nil):
		return fmt.Errorf("audit: a file of neither a worker nor a lane, or of both")
	case h.Worker != nil && (h.Worker.Worker < 0 || h.Worker.Worker >= maxWorkers):
		return fmt.Errorf("audit: a file of worker %d, want 0 to %d", h.Worker.Worker, maxWorkers-1)
	case h.Worker != nil && h.Worker.Kept < 0:
		return fmt.Errorf("audit: a file of a worker that keeps values for %d steps", h.Worker.Kept)
	case h.Lane != nil:
		return h.Lane.validate(h.Rate)
	}
	return nil
}

// maxWorkers bounds what a file may claim.
const maxWorkers = 1 << 20

func (l *LaneHeader) validate(rate float64) error {
	if l.Workers < 1 || l.Workers > maxWorkers || l.Lane < 0 || l.Staleness < -1 {
		return fmt.Errorf("audit: a file of lane %d for %d workers with staleness %d", l.Lane, l.Workers, l.Staleness)
	}
	for _, m := range l.Merges {
		if m.Dst < 0 || m.Src < 0 || int(m.Dst) >= l.Workers || int(m.Src) >= l.Workers {
			return fmt.Errorf("audit: a file of lane %d that adds worker %d to %d of %d", l.Lane, m.Src, m.Dst, l.Workers)
		}
	}
	for id, s := range l.Modes {
		if s < -1 {
			return fmt.Errorf("audit: a file of lane %d, whose table %d has staleness %d", l.Lane, id, s)
		}
	}
	for i := range l.Tables {
		if err := l.Tables[i].Validate(); err != nil {
			return err
		}
	}
	for _, b := range l.Dense.Blocks {
		if b.Floats < 1 || len(b.Init) != places(b.Floats, rate) {
			return fmt.Errorf("audit: lane %d: dense block %d of %d floats, %d of them recorded", l.Lane, b.Index, b.Floats, len(b.Init))
		}
	}
	return nil
}

// headOf is a header as a record.
func headOf(h *Header) (Record, error) {
	text, err := json.Marshal(h)
	if err == nil && len(text) > MaxRecord-fixedBytes {
		err = fmt.Errorf("audit: a header of %d bytes, at most %d: lower --audit-rate", len(text), MaxRecord-fixedBytes)
	}
	return Record{Kind: Head, Code: Version, Text: text}, err
}

// parseHead is its inverse.
func parseHead(r *Record) (h Header, err error) {
	if r.Kind != Head {
		return h, fmt.Errorf("audit: the file begins with a %s record, want a head", r.Kind)
	}
	if r.Code != Version {
		return h, fmt.Errorf("audit: the file has format %d, this psrt reads %d: use the psrt that wrote it", r.Code, Version)
	}
	if err := json.Unmarshal(r.Text, &h); err != nil {
		return h, fmt.Errorf("audit: the file's head: %w", err)
	}
	return h, h.validate()
}
