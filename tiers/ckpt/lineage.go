package ckpt

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kinds of generations.
const (
	KindBase  = "base"  // a whole model
	KindDelta = "delta" // what has changed since the parent
)

// Lineage is where a generation stands in its history. All of it is filled in
// by the Commit of a Next, and empty in format 1.
type Lineage struct {
	Number uint64 `json:"number,omitempty"` // from 1; never used again
	Kind   string `json:"kind,omitempty"`
	Parent *Ref   `json:"parent,omitempty"` // a delta's
	// Merged is the generation whose chain a base is the sum of.
	Merged   *Ref   `json:"merged,omitempty"`
	Time     string `json:"time,omitempty"` // of its Begin, RFC 3339
	Quantise string `json:"quantise,omitempty"`
	// Run is the id of the run that wrote it; "" in generations from before there were ids.
	Run string `json:"run,omitempty"`
	// Compress is how blocks are packed that shrink by it.
	Compress string `json:"compress,omitempty"`

	// SHA256 is the manifest's own, known once it is read or written.
	SHA256 string `json:"-"`
}

// Ref names a generation and nothing else but it.
type Ref struct {
	Number uint64 `json:"number"`
	SHA256 string `json:"sha256"` // of its manifest
}

func (r Ref) valid() bool { return r.Number > 0 && len(r.SHA256) == 2*sha256.Size }

// Ref is the generation's.
func (l *Lineage) Ref() Ref { return Ref{l.Number, l.SHA256} }

// A history's files, beside the directories of parts.
const (
	manifestPrefix = "MANIFEST-"
	manifestSuffix = ".json"
	headName       = "HEAD"
)

// manifestFile is the name of a generation's manifest.
func manifestFile(number uint64) string {
	return fmt.Sprintf("%s%010d%s", manifestPrefix, number, manifestSuffix)
}

// generationDir is the directory of a generation's parts. The id tells apart
// attempts at one number.
func generationDir(number, id uint64) string {
	return fmt.Sprintf("%s%010d-%016x", partsPrefix, number, id)
}

// manifestNumber is manifestFile's inverse.
func manifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	digits, ok2 := strings.CutSuffix(digits, manifestSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && ok2 && err == nil && n > 0 && manifestFile(n) == name
}

// splitDir is generationDir's inverse.
func splitDir(name string) (number, id uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, partsPrefix)
	digits, hex, ok2 := strings.Cut(rest, "-")
	number, err := strconv.ParseUint(digits, 10, 64)
	id, err2 := strconv.ParseUint(hex, 16, 64)
	return number, id, ok && ok2 && err == nil && err2 == nil && number > 0 && generationDir(number, id) == name
}

// id is what makes the generation's parts its own; 0 in format 1.
func (m *Manifest) id() uint64 {
	_, id, _ := splitDir(m.Generation)
	return id
}

// validHistory checks the lineage by itself.
func (m *Manifest) validHistory() error {
	l := m.Lineage
	l.SHA256 = ""
	if m.Format == FormatModel {
		if l != (Lineage{}) || m.Step != 0 || m.Position != nil {
			return fmt.Errorf("format %d has a lineage %+v", m.Format, l)
		}
		return nil
	}
	if number, _, ok := splitDir(m.Generation); !ok || number != m.Number {
		return fmt.Errorf("generation %d has its parts in %q", m.Number, m.Generation)
	}
	switch m.Kind {
	case KindBase:
		if m.Parent != nil {
			return fmt.Errorf("a base with a parent, generation %d", m.Parent.Number)
		}
	case KindDelta:
		if m.Parent == nil || !m.Parent.valid() || m.Parent.Number >= m.Number || m.Merged != nil {
			return fmt.Errorf("a delta, generation %d, with parent %+v", m.Number, m.Parent)
		}
	default:
		return fmt.Errorf("kind %q, known are %s and %s", m.Kind, KindBase, KindDelta)
	}
	switch m.Quantise {
	case QuantNone:
	case QuantFP16, QuantInt8:
		if !m.WeightsOnly {
			return fmt.Errorf("quantised by %s, but not weights only", m.Quantise)
		}
	default:
		return fmt.Errorf("quantised by %q, known are %s and %s", m.Quantise, QuantFP16, QuantInt8)
	}
	if want := map[bool]string{true: CompressLZ4}[m.Format == FormatPacked]; m.Compress != want {
		return fmt.Errorf("compressed by %q in format %d, want %q", m.Compress, m.Format, want)
	}
	if !validRun(m.Run) {
		return fmt.Errorf("run %q, want %d hex digits", m.Run, 2*runIDBytes)
	}
	if _, err := time.Parse(time.RFC3339Nano, m.Time); err != nil {
		return fmt.Errorf("time %q: %v", m.Time, err)
	}
	return nil
}

// follows checks that a delta can be laid over its parent.
func (m *Manifest) follows(parent *Manifest) error {
	if m.Slots != parent.Slots {
		return fmt.Errorf("%d slots, its parent has %d", m.Slots, parent.Slots)
	}
	if parent.WeightsOnly && !m.WeightsOnly {
		return fmt.Errorf("a delta with optimizer state cannot follow a generation without")
	}
	for i := range m.Tables {
		s := &m.Tables[i]
		if p := parent.Spec(s.ID); p != nil && (p.Dim != s.Dim || p.RowFloats() != s.RowFloats() || p.Optimizer.Name() != s.Optimizer.Name()) {
			return fmt.Errorf("table %s has dimension %d and optimizer %s, in its parent %d and %s",
				s.Name, s.Dim, s.Optimizer.Name(), p.Dim, p.Optimizer.Name())
		}
	}
	return nil
}
