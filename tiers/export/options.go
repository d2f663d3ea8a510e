package export

import (
	"encoding/json"

	"psrt/tiers/ckpt"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// The kinds of export.
const (
	Inference   = "inference"
	Text        = "text"
	Safetensors = "safetensors"
)

// format is the version of each kind's contents: names of files, of tensors, and
// the manifest's Content.
const format = 1

// DefaultMemory is what sorting takes where Options say nothing.
const DefaultMemory = 256 << 20

// Options say what is exported, and how.
type Options struct {
	Kind     string
	Quantize quant.Encoding // of table weights; 0 is as they are
	// State adds what stands behind the weights (text, safetensors): the model can
	// then be trained further.
	State bool
	// Serving leaves out what a lifecycle's rules would not serve, and, of an
	// inference model, rows of zeros, which an unknown key gives as well.
	Serving bool
	Memory  int64 // for sorting, in bytes; 0 is DefaultMemory
	Workers int   // files read at once
	// Views name parts of dense vectors, by ID; without them a vector is one
	// tensor.
	Views map[uint32][]View
	// Progress, if it is there, is called now and then, never twice at a time.
	Progress func(Progress)
}

// View is a part of a dense vector.
type View struct {
	Name       string
	Offset     int64
	Rows, Cols int64
}

// Progress is how far an export is.
type Progress struct {
	Table string // or dense vector
	Doing string // "reading" or "writing"
	Rows  int64  // so far
	Of    int64  // about
}

func (o *Options) validate() error {
	switch {
	case o.Kind != Inference && o.Kind != Text && o.Kind != Safetensors:
		return outdir.Refuse("export: format %q, want %s, %s or %s", o.Kind, Inference, Text, Safetensors)
	case o.Kind == Text && o.Quantize != quant.F32:
		return outdir.Refuse("export: text has every bit of a weight; leave %v out", o.Quantize)
	case o.Kind == Inference && o.State:
		return outdir.Refuse("export: an inference model has no optimizer state; export as %s or %s to keep it", Text, Safetensors)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Quantize == 0 {
		o.Quantize = quant.F32
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	o.Workers = max(1, o.Workers)
	return o
}

// Content is what an export's manifest says.
type Content struct {
	Source Source  `json:"source"`
	State  bool    `json:"state"`
	Tables []Table `json:"tables"`
	Dense  []Dense `json:"dense"`
}

// Source is what is kept of the model that was exported.
type Source struct {
	Meta        json.RawMessage `json:"meta"`
	Digest      string          `json:"digest"`
	WeightsOnly bool            `json:"weights_only"`
	Slots       int             `json:"slots"`
	// Generation and Step are those of a history; 0 of a model that is none's.
	Generation uint64 `json:"generation,omitempty"`
	Step       int64  `json:"step,omitempty"`
	// Tables and Dense are how many there were: whoever has a part of the files
	// learns it from them.
	Tables int `json:"tables"`
	Dense  int `json:"dense"`
}

func sourceOf(m *ckpt.Manifest) Source {
	return Source{Meta: m.Meta, Digest: m.Digest, WeightsOnly: m.WeightsOnly, Slots: m.Slots,
		Generation: m.Number, Step: m.Step, Tables: len(m.Tables), Dense: len(m.Dense)}
}

// Table is a table's file, and what is in it.
type Table struct {
	Spec     table.Spec `json:"spec"`
	File     string     `json:"file"`
	Encoding string     `json:"encoding"`
	Exact    int        `json:"exact,omitempty"` // leading weights that are not quantised
	Rows     int64      `json:"rows"`
	Unserved int64      `json:"unserved,omitempty"` // rows left out by the lifecycle's rules
	Zero     int64      `json:"zero,omitempty"`     // rows left out because all weights are 0
	Bytes    int64      `json:"bytes"`
	// Content is the digest of the file's rows (inference): package inference. Exports
	// of an earlier psrt have none.
	Content string `json:"content,omitempty"`
}

// Dense is a dense vector's file.
type Dense struct {
	Name     string          `json:"name"`
	ID       uint32          `json:"id"`
	Elements int64           `json:"elements"`
	Spec     json.RawMessage `json:"spec,omitempty"`
	File     string          `json:"file"`
	Bytes    int64           `json:"bytes"`
}
