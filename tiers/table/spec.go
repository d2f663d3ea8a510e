package table

import (
	"fmt"
	"math"
)

const (
	// NoRow stands for "this key has no row" in answers of a lookup.
	NoRow = ^uint32(0)
	// MaxName bounds a table's name, in bytes: it is in every error and metric.
	MaxName = 255
	// MaxDim bounds the weights of a row.
	MaxDim = 4096
	// MaxRows bounds the rows of one table in one lane: ids are 32 bits, and the
	// largest is NoRow.
	MaxRows = 1<<32 - 2
)

// Spec describes one sparse table. Tables with the same ID are the same table
// on every server: the ID is part of what a row is born from and of the digest.
type Spec struct {
	Name      string    `yaml:"name" json:"name"`
	ID        uint32    `yaml:"id" json:"id"`
	Dim       int       `yaml:"dim" json:"dim"` // weights in a row
	Init      Init      `yaml:"init" json:"init"`
	Optimizer Optimizer `yaml:"optimizer" json:"optimizer"`
	// Lifecycle says when rows are made, grow and go; nil: when they are asked for,
	// whole, and never.
	Lifecycle *Lifecycle `yaml:"lifecycle,omitempty" json:"lifecycle,omitempty"`
}

// Equal says whether two descriptions are the same; == would compare where
// their lifecycles lie.
func (s Spec) Equal(o Spec) bool {
	same := s.Lifecycle == o.Lifecycle || s.Lifecycle != nil && o.Lifecycle != nil && *s.Lifecycle == *o.Lifecycle
	s.Lifecycle, o.Lifecycle = nil, nil
	return same && s == o
}

// Validate reports what is wrong with the description, or nil.
func (s Spec) Validate() error {
	if s.Name == "" {
		return fmt.Errorf("table: a table without a name; give every table a name of its own")
	}
	if len(s.Name) > MaxName {
		return fmt.Errorf("table %.20q…: a name of %d bytes, at most %d", s.Name, len(s.Name), MaxName)
	}
	if s.Dim < 1 || s.Dim > MaxDim {
		return fmt.Errorf("table %q: dim %d, must be 1 to %d", s.Name, s.Dim, MaxDim)
	}
	if err := s.Init.validate(s.Dim); err != nil {
		return fmt.Errorf("table %q: %w", s.Name, err)
	}
	if err := s.Optimizer.Validate(); err != nil {
		return fmt.Errorf("table %q: %w", s.Name, err)
	}
	if s.Lifecycle != nil {
		if err := s.Lifecycle.validate(s.Optimizer); err != nil {
			return fmt.Errorf("table %q: %w", s.Name, err)
		}
	}
	return nil
}

// Birth is Init as it takes effect: what is added up or assigned begins at 0
// where the description says nothing else.
func (s Spec) Birth() Init {
	if s.Init.Kind == "" && (s.Optimizer.Kind == Sum || s.Optimizer.Kind == Assign) {
		s.Init.Kind = InitZero
	}
	return s.Init.WithDefaults()
}

// SameRows says whether the rows of one table mean the same in the other: rates
// and thresholds may differ, what the floats are may not.
func (s Spec) SameRows(o Spec) bool {
	if s.Dim != o.Dim || s.Optimizer.Name() != o.Optimizer.Name() || (s.Lifecycle == nil) != (o.Lifecycle == nil) {
		return false
	}
	if l := s.Lifecycle; l != nil && (l.Embed.Rule != o.Lifecycle.Embed.Rule || l.Embedx.Rule != o.Lifecycle.Embedx.Rule) {
		return false
	}
	return s.RowFloats() == o.RowFloats()
}

// RowFloats is the length of a row with its optimizer state and what a lifecycle
// keeps.
func (s Spec) RowFloats() int {
	if s.Lifecycle == nil {
		return s.Dim + s.Optimizer.StateFloats(s.Dim)
	}
	return s.LifeAt() + LifeFloats
}

// LifeAt is where a lifecycle's words begin in a row: behind the weights, the
// state of the first, and that of the others.
func (s Spec) LifeAt() int {
	embed, vector := s.PartStates()
	return s.Dim + embed + vector
}

// PartStates are the floats of optimizer state of the first weight and of the
// vector behind it, of a table with a lifecycle.
func (s Spec) PartStates() (embed, vector int) {
	return s.Lifecycle.Embed.stateFloats(s.Optimizer, 1), s.Lifecycle.Embedx.stateFloats(s.Optimizer, s.Dim-1)
}

// PushFloats is what a push carries for a row: the gradients, and with a
// lifecycle slot, show and click before them, as numbers.
func (s Spec) PushFloats() int {
	if s.Lifecycle == nil {
		return s.Dim
	}
	return PushCounts + s.Dim
}

// CreatesOnPull says whether a pull of an unknown key makes a row. Otherwise it
// gives zeros, and the first push makes it.
func (s Spec) CreatesOnPull() bool { return s.Lifecycle == nil || !s.Lifecycle.CreateValueWhenPush }

// RowBytes is RowFloats in bytes.
func (s Spec) RowBytes() int { return 4 * s.RowFloats() }

// Kinds of Init. The empty kind is InitUniform.
const (
	InitUniform = "uniform"
	InitNormal  = "normal"
	InitZero    = "zero"
)

// DefaultInitScale is the scale where a description gives none.
const DefaultInitScale = 0.01

// Init says how the weights of a new row are drawn.
type Init struct {
	// ZeroPrefix weights at the row's start are 0 (a linear term, say).
	ZeroPrefix int `yaml:"zero_prefix" json:"zero_prefix"`
	// Kind is uniform (in [-Scale, Scale)), normal (deviation Scale) or zero.
	Kind string `yaml:"kind" json:"kind"`
	// Scale of 0 means DefaultInitScale.
	Scale float32 `yaml:"scale" json:"scale"`
}

// WithDefaults fills fields left at their zero value.
func (i Init) WithDefaults() Init {
	if i.Kind == "" {
		i.Kind = InitUniform
	}
	if i.Scale == 0 {
		i.Scale = DefaultInitScale
	}
	return i
}

// plainInit has the fields and not the methods.
type plainInit Init

// UnmarshalYAML reads a scale that is given as 0 as zeros, not as the default scale.
func (i *Init) UnmarshalYAML(unmarshal func(any) error) error {
	p := plainInit{Scale: DefaultInitScale}
	if err := unmarshal(&p); err != nil {
		return err
	}
	*i = Init(p).Scaled(p.Scale)
	return nil
}

// Scaled has a scale that somebody gave: 0 draws zeros.
func (i Init) Scaled(scale float32) Init {
	switch i.Kind {
	case "", InitUniform, InitNormal:
		if scale == 0 {
			i.Kind = InitZero
		}
	}
	i.Scale = scale
	return i
}

func (i Init) validate(dim int) error {
	switch i.Kind {
	case "", InitUniform, InitNormal, InitZero:
	default:
		return fmt.Errorf("init kind %q, must be %s, %s or %s", i.Kind, InitUniform, InitNormal, InitZero)
	}
	if !(i.Scale >= 0) || math.IsInf(float64(i.Scale), 0) {
		return fmt.Errorf("init scale %v, must be finite and not negative", i.Scale)
	}
	if i.ZeroPrefix < 0 || i.ZeroPrefix > dim {
		return fmt.Errorf("init zero_prefix %d, must be 0 to dim (%d)", i.ZeroPrefix, dim)
	}
	return nil
}
