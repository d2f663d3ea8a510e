package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Rules of a part of a row. The empty word is the table's optimizer and
// initialisation. For weight w and h = gradient / scale:
const (
	PartNaive      = "naive"       // w -= lr h
	PartAdaGrad    = "adagrad"     // w -= lr h sqrt(g0 / (g0 + G)); then G += mean h^2
	PartStdAdaGrad = "std_adagrad" // the same with one G per weight
	PartAdam       = "adam"
	PartSharedAdam = "shared_adam" // moments are means over the part
)

// PartRule is the rule of one part of a row. A field left at 0 means its default:
// learning_rate .05 (.001 for the adams), initial_g2sum 3, initial_range 0 (the
// weight) or 1e-4 (the vector), weight_bounds -10 to 10, beta1_decay_rate .9,
// beta2_decay_rate .999, ada_epsilon 1e-8. With the table's optimizer only
// learning_rate and weight_bounds may be given; their defaults are the
// optimizer's rate and no bounds.
type PartRule struct {
	Rule           string  `yaml:"rule" json:"rule"`
	LearningRate   float32 `yaml:"learning_rate" json:"learning_rate"`
	InitialG2Sum   float32 `yaml:"initial_g2sum" json:"initial_g2sum"`
	InitialRange   float32 `yaml:"initial_range" json:"initial_range"` // weights begin in [-r, r)
	WeightBounds   Bounds  `yaml:"weight_bounds" json:"weight_bounds"`
	Beta1DecayRate float32 `yaml:"beta1_decay_rate" json:"beta1_decay_rate"`
	Beta2DecayRate float32 `yaml:"beta2_decay_rate" json:"beta2_decay_rate"`
	AdaEpsilon     float32 `yaml:"ada_epsilon" json:"ada_epsilon"`
}

// refuseZeros refuses settings of a part that are given as 0, where 0 would mean the default.
// What a psrt has written down has zeros for all that was left out, and does not come here.
func refuseZeros(given map[string]any) error {
	for _, part := range []string{"embed", "embedx"} {
		settings, _ := given[part].(map[string]any)
		for name, v := range settings {
			bounds, _ := v.([]any)
			switch {
			case name == "rule" || name == "initial_range" && part == "embed":
			case isZero(v):
				return fmt.Errorf("lifecycle: %s.%s 0: must be above 0; leave it out for its default", part, name)
			case len(bounds) == 2 && isZero(bounds[0]) && isZero(bounds[1]):
				return fmt.Errorf("lifecycle: %s.%s [0, 0]: no weight would ever change; leave it out for its default", part, name)
			}
		}
	}
	return nil
}

// isZero reports whether a value of a file is the number 0.
func isZero(v any) bool { return v == 0 || v == 0.0 }

// Bounds are the least and the greatest weight; both 0 is none given.
type Bounds [2]float32

// UnmarshalJSON wants two numbers.
func (b *Bounds) UnmarshalJSON(text []byte) error {
	var v []float32
	if err := strictJSON(text, &v); err != nil {
		return err
	}
	if len(v) != 2 {
		return fmt.Errorf("weight_bounds: %d numbers, want 2", len(v))
	}
	*b = Bounds(v)
	return nil
}

// WithDefaults fills fields left at their zero value, as far as the rule uses
// them. Whether the part is the vector decides the initial range.
func (p PartRule) WithDefaults(isVector bool) PartRule {
	if p.Rule == "" {
		return p
	}
	set := func(f *float32, v float32) {
		if *f == 0 {
			*f = v
		}
	}
	if p.WeightBounds == (Bounds{}) {
		p.WeightBounds = Bounds{-10, 10}
	}
	if isVector {
		set(&p.InitialRange, 1e-4)
	}
	switch p.Rule {
	case PartAdam, PartSharedAdam:
		set(&p.LearningRate, 0.001)
		set(&p.Beta1DecayRate, 0.9)
		set(&p.Beta2DecayRate, 0.999)
		set(&p.AdaEpsilon, 1e-8)
	case PartAdaGrad, PartStdAdaGrad:
		set(&p.InitialG2Sum, 3)
	}
	set(&p.LearningRate, 0.05)
	return p
}

// IsBounded says whether the part's weights have bounds.
func (p PartRule) IsBounded() bool { return p.Rule != "" || p.WeightBounds != (Bounds{}) }

func (p PartRule) stateFloats(o Optimizer, dim int) int {
	switch {
	case dim == 0 || p.Rule == PartNaive:
		return 0
	case p.Rule == "":
		return o.StateFloats(dim)
	case p.Rule == PartAdaGrad:
		return 1
	case p.Rule == PartStdAdaGrad:
		return dim
	case p.Rule == PartAdam:
		return 2*dim + 2
	}
	return 4 // shared_adam: two moments, two powers of the betas
}

func (p PartRule) validate(name string) error {
	switch p.Rule {
	case "", PartNaive, PartAdaGrad, PartStdAdaGrad, PartAdam, PartSharedAdam:
	default:
		return fmt.Errorf("lifecycle: %s: rule %q, must be %s, %s, %s, %s, %s or nothing (the table's optimizer)", name, p.Rule,
			PartNaive, PartAdaGrad, PartStdAdaGrad, PartAdam, PartSharedAdam)
	}
	for _, f := range []struct {
		name  string
		v     float32
		alien bool // given, and of no use to the rule
	}{
		{"learning_rate", p.LearningRate, false},
		{"initial_range", p.InitialRange, p.Rule == ""},
		{"initial_g2sum", p.InitialG2Sum, p.Rule != PartAdaGrad && p.Rule != PartStdAdaGrad},
		{"beta1_decay_rate", p.Beta1DecayRate, p.Rule != PartAdam && p.Rule != PartSharedAdam},
		{"beta2_decay_rate", p.Beta2DecayRate, p.Rule != PartAdam && p.Rule != PartSharedAdam},
		{"ada_epsilon", p.AdaEpsilon, p.Rule != PartAdam && p.Rule != PartSharedAdam},
	} {
		if !(f.v >= 0) || math.IsInf(float64(f.v), 0) {
			return fmt.Errorf("lifecycle: %s: %s %v, must be finite and not negative", name, f.name, f.v)
		}
		if f.alien && f.v != 0 {
			return fmt.Errorf("lifecycle: %s: %s %v, but rule %q does not use it; leave it out or choose another rule", name, f.name, f.v, p.Rule)
		}
	}
	if p.Beta1DecayRate >= 1 || p.Beta2DecayRate >= 1 {
		return fmt.Errorf("lifecycle: %s: beta1_decay_rate %v, beta2_decay_rate %v, must be below 1", name, p.Beta1DecayRate, p.Beta2DecayRate)
	}
	lo, hi := float64(p.WeightBounds[0]), float64(p.WeightBounds[1])
	if p.WeightBounds != (Bounds{}) && !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return fmt.Errorf("lifecycle: %s: weight_bounds %v, want two finite numbers, the lower first", name, p.WeightBounds)
	}
	return nil
}

// strictJSON refuses what v has no field for: a misspelt parameter that is
// silently left at its default trains another model.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the last brace")
	}
	return nil
}
