package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Kinds of Optimizer. The empty kind is AdaGrad.
const (
	SGD        = "sgd"
	AdaGrad    = "adagrad"    // one accumulator per element
	RowAdaGrad = "rowadagrad" // one accumulator per row: the mean of squared gradients
	Adam       = "adam"       // lazy: only rows that get a gradient move
	FTRL       = "ftrl"       // FTRL-proximal

	// These are no optimizers: a row is what was pushed.
	Sum    = "sum"    // all of it, added up
	Assign = "assign" // the last of it

	// User is a rule from a shared library; see tiers/accessor and docs/extending.md.
	User = "user"
)

// Optimizer says how a gradient changes a row. Unless Exact is set, a field left at 0
// means its default: LR .01 for sgd, .05 for adagrad and rowadagrad, .001 for adam, .1
// for ftrl, none for sum, assign and user; Beta1 .9, Beta2 .999 (adam); Eps 1e-8 (adagrad, rowadagrad, adam);
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
	// Exact: fields at 0 are 0, and mean no default. WithZeros sets it.
	Exact bool `yaml:"-" json:"exact,omitempty"`

	// Library, Params and what follows are for user: the shared library as the
	// server finds it and the text that its rule is opened with.
	Library string `yaml:"library,omitempty" json:"library,omitempty"`
	Params  string `yaml:"params,omitempty" json:"params,omitempty"`
	// Rule, State and Ordered are what the library says when it is loaded: the
	// rule's name, the floats of state behind a row, and that pushes must not be
	// added up before the rule sees them.
	Rule    string `yaml:"-" json:"rule,omitempty"`
	State   int    `yaml:"-" json:"state,omitempty"`
	Ordered bool   `yaml:"-" json:"ordered,omitempty"`
}

var defaultLR = map[string]float32{SGD: 0.01, AdaGrad: 0.05, RowAdaGrad: 0.05, Adam: 0.001, FTRL: 0.1}

// WithDefaults fills fields left at their zero value, as far as the kind uses
// them.
func (o Optimizer) WithDefaults() Optimizer {
	if o.Kind == "" {
		o.Kind = AdaGrad
	}
	if o.Exact {
		return o
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

// WithZeros fills in the defaults but of the named fields, which somebody gave as 0. A
// field that the kind does not use, or whose default is 0, needs no mention.
func (o Optimizer) WithZeros(names ...string) (Optimizer, error) {
	full := o.WithDefaults()
	for _, f := range []struct {
		name string
		v    *float32
		bad  string // why 0 is refused
	}{
		{"lr", &full.LR, map[string]string{FTRL: "ftrl divides by its rate: give one above 0, or take another optimizer"}[full.Kind]},
		{"beta1", &full.Beta1, ""}, {"beta2", &full.Beta2, ""},
		{"eps", &full.Eps, "a gradient of 0 would divide 0 by 0: give a small number such as 1e-8"},
		{"beta", &full.Beta, "the first gradients would be divided by next to nothing: give a number above 0"},
	} {
		if *f.v == 0 || !slices.Contains(names, f.name) {
			continue
		}
		if f.bad != "" {
			return o, fmt.Errorf("optimizer %s: %s 0: %s", full.Kind, f.name, f.bad)
		}
		*f.v, full.Exact = 0, true
	}
	if full.Exact {
		return full, nil
	}
	return o, nil
}

// plainOptimizer has the fields and not the methods.
type plainOptimizer Optimizer

// UnmarshalYAML tells a field that is given as 0 from one that is left out.
func (o *Optimizer) UnmarshalYAML(unmarshal func(any) error) error {
	p, given := plainOptimizer(*o), map[string]any{}
	if err := unmarshal(&p); err != nil {
		return err
	}
	if err := unmarshal(&given); err != nil {
		return err
	}
	read, err := Optimizer(p).WithZeros(slices.Collect(maps.Keys(zeros(given)))...)
	if err == nil {
		*o = read
	}
	return err
}

// zeros are the names of given values that are the number 0.
func zeros(given map[string]any) map[string]any {
	maps.DeleteFunc(given, func(_ string, v any) bool { return !isZero(v) })
	return given
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
	case User:
		return o.State
	}
	return 0
}

// Adds says whether gradients of one row may be added up before they are
// applied. Where not, each is applied by itself, in the order of the pushes.
func (o Optimizer) Adds() bool { return o.Kind != Assign && !o.Ordered }

// Repeats says whether the sum of a row's gradients of several steps does better as so many steps
// of their mean than as one: where the length of a step hardly grows with the gradient.
func (o Optimizer) Repeats() bool {
	switch o.WithDefaults().Kind {
	case AdaGrad, RowAdaGrad, Adam, FTRL:
		return true
	}
	return false
}

// Name is the rule as people compare it: its kind, and of a user's its name.
func (o Optimizer) Name() string {
	o = o.WithDefaults()
	if o.Kind == User && o.Rule != "" {
		return o.Kind + " " + o.Rule
	}
	return o.Kind
}

// Validate reports what is wrong with the description, or nil.
func (o Optimizer) Validate() error {
	d := o.WithDefaults()
	if _, ok := defaultLR[d.Kind]; !ok {
		return o.validateOther()
	}
	if o.Library != "" || o.Params != "" {
		return fmt.Errorf("optimizer %s: library %q and params %q are for %s only", d.Kind, o.Library, o.Params, User)
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

// MaxState bounds the state floats behind a row of a user's rule.
const MaxState = 4 * MaxDim

// validateOther is Validate for what is no built-in optimizer.
func (o Optimizer) validateOther() error {
	switch o.Kind {
	case Sum, Assign:
		if o != (Optimizer{Kind: o.Kind}) {
			return fmt.Errorf("rule %s takes no lr and no other parameter: what is pushed is the value", o.Kind)
		}
	case User:
		bare := Optimizer{Kind: User, Library: o.Library, Params: o.Params, Rule: o.Rule, State: o.State, Ordered: o.Ordered}
		switch {
		case o.Library == "":
			return fmt.Errorf("rule %s without a library: name the .so file", User)
		case o != bare:
			return fmt.Errorf("rule %s of %s: lr and the like are for built-in optimizers; put them into params", User, o.Library)
		case o.State < 0 || o.State > MaxState:
			return fmt.Errorf("rule %s of %s: %d floats of state a row, must be 0 to %d", User, o.Library, o.State, MaxState)
		}
	default:
		return fmt.Errorf("optimizer kind %q, must be %s, %s, %s, %s, %s, %s, %s or %s", o.Kind,
			SGD, AdaGrad, RowAdaGrad, Adam, FTRL, Sum, Assign, User)
	}
	return nil
}
