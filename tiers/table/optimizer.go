package table

import (
	"fmt"
	"math"
)

// Kinds of Optimizer. The empty kind is AdaGrad.
const (
	SGD        = "sgd"
	AdaGrad    = "adagrad"    // one accumulator per element
	RowAdaGrad = "rowadagrad" // one accumulator per row: the mean of squared gradients
	Adam       = "adam"       // lazy: only rows that get a gradient move
	FTRL       = "ftrl"       // FTRL-proximal
)

// Optimizer says how a gradient changes a row. A field left at 0 means its
// default: LR .01 for sgd, .05 for adagrad and rowadagrad, .001 for adam, .1
// for ftrl; Beta1 .9, Beta2 .999 (adam); Eps 1e-8 (adagrad, rowadagrad, adam);
// Beta 1 (ftrl). InitialAccumulator, L1 and L2 are 0 by default.
type Optimizer struct {
	Kind  string  `yaml:"kind" json:"kind"`
	LR    float32 `yaml:"lr" json:"lr"`
	Beta1 float32 `yaml:"beta1" json:"beta1"`
	Beta2 float32 `yaml:"beta2" json:"beta2"`
	Eps   float32 `yaml:"eps" json:"eps"`
	// InitialAccumulator is the squared gradient a new row begins with
	// (adagrad, rowadagrad, ftrl).
	InitialAccumulator float32 `yaml:"initial_accumulator" json:"initial_accumulator"`
	L1                 float32 `yaml:"l1" json:"l1"` // ftrl only
	// L2 is FTRL's own term; for the others L2 x weight is added to the
	// gradient of a row that gets one.
	L2   float32 `yaml:"l2" json:"l2"`
	Beta float32 `yaml:"beta" json:"beta"` // ftrl
}

var defaultLR = map[string]float32{SGD: 0.01, AdaGrad: 0.05, RowAdaGrad: 0.05, Adam: 0.001, FTRL: 0.1}

// WithDefaults fills fields left at their zero value, as far as the kind uses
// them.
func (o Optimizer) WithDefaults() Optimizer {
	if o.Kind == "" {
		o.Kind = AdaGrad
	}
	set := func(f *float32, v float32) {
		if *f == 0 {
			*f = v
		}
	}
	set(&o.LR, defaultLR[o.Kind])
	switch o.Kind {
	case AdaGrad, RowAdaGrad:
		set(&o.Eps, 1e-8)
	case Adam:
		set(&o.Beta1, 0.9)
		set(&o.Beta2, 0.999)
		set(&o.Eps, 1e-8)
	case FTRL:
		set(&o.Beta, 1)
	}
	return o
}

// StateFloats is the length of the optimizer's state behind dim weights.
func (o Optimizer) StateFloats(dim int) int {
	switch o.WithDefaults().Kind {
	case AdaGrad:
		return dim
	case RowAdaGrad:
		return 1
	case Adam:
		return 2*dim + 2 // first and second moments, then the powers of the betas
	case FTRL:
		return 2 * dim // z, n
	}
	return 0
}

// Validate reports what is wrong with the description, or nil.
func (o Optimizer) Validate() error {
	d := o.WithDefaults()
	if _, ok := defaultLR[d.Kind]; !ok {
		return fmt.Errorf("optimizer kind %q, must be %s, %s, %s, %s or %s", o.Kind, SGD, AdaGrad, RowAdaGrad, Adam, FTRL)
	}
	for _, f := range []struct {
		name string
		v    float32
	}{{"lr", d.LR}, {"beta1", d.Beta1}, {"beta2", d.Beta2}, {"eps", d.Eps},
		{"initial_accumulator", d.InitialAccumulator}, {"l1", d.L1}, {"l2", d.L2}, {"beta", d.Beta}} {
		if !(f.v >= 0) || math.IsInf(float64(f.v), 0) {
			return fmt.Errorf("optimizer %s: %s %v, must be finite and not negative", d.Kind, f.name, f.v)
		}
	}
	if d.Kind != FTRL && d.L1 != 0 {
		return fmt.Errorf("optimizer %s: l1 %v, but only %s has an l1 term; leave it 0 or choose %s", d.Kind, d.L1, FTRL, FTRL)
	}
	if d.Kind == Adam && (d.Beta1 >= 1 || d.Beta2 >= 1) {
		return fmt.Errorf("optimizer %s: beta1 %v, beta2 %v, must be below 1", d.Kind, d.Beta1, d.Beta2)
	}
	return nil
}
