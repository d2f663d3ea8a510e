package table

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// A 0 that somebody gave is one, or is refused; it never stands for the default.
func TestZerosAreNotDefaults(t *testing.T) {
	for _, c := range []struct {
		text string
		want Optimizer
		bad  string
	}{
		{"{kind: adam, lr: 0}", Optimizer{Kind: Adam, Beta1: .9, Beta2: .999, Eps: 1e-8, Exact: true}, ""},
		{"{kind: sgd, lr: 0.0}", Optimizer{Kind: SGD, Exact: true}, ""},
		{"{kind: adam, lr: .1, beta1: 0}", Optimizer{Kind: Adam, LR: .1, Beta2: .999, Eps: 1e-8, Exact: true}, ""},
		{"{kind: adam}", Optimizer{Kind: Adam}, ""},
		{"{kind: adam, l2: 0, beta: 0}", Optimizer{Kind: Adam}, ""},
		{"{kind: sum, lr: 0}", Optimizer{Kind: Sum}, ""},
		{"{kind: ftrl, lr: 0}", Optimizer{}, "lr 0"},
		{"{kind: ftrl, beta: 0}", Optimizer{}, "beta 0"},
		{"{kind: adagrad, eps: 0}", Optimizer{}, "eps 0"},
	} {
		var o Optimizer
		err := yaml.Unmarshal([]byte(c.text), &o)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: %v, want %q refused", c.text, err, c.bad)
			}
			continue
		}
		if err != nil || o != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.text, o, err, c.want)
			continue
		}
		if full := o.WithDefaults(); full != full.WithDefaults() || o.Exact && full != o || full.Validate() != nil {
			t.Errorf("%s: with defaults %+v, %v", c.text, full, full.Validate())
		}
	}
	for text, want := range map[string]Init{"{scale: 0}": {Kind: InitZero}, "{kind: normal, scale: 0}": {Kind: InitZero}, "{kind: normal}": {Kind: InitNormal, Scale: DefaultInitScale}} {
		var i Init
		if err := yaml.Unmarshal([]byte(text), &i); err != nil || i != want {
			t.Errorf("%s: %+v, %v, want %+v", text, i, err, want)
		}
	}
}

// Settings of a part that would be replaced by their defaults are refused.
func TestZerosOfParts(t *testing.T) {
	for text, bad := range map[string]string{
		"embed: {rule: adam, learning_rate: 0}":          "embed.learning_rate 0",
		"embedx: {rule: adagrad, initial_g2sum: 0.0}":    "embedx.initial_g2sum 0",
		"embedx: {rule: adagrad, initial_range: 0}":      "embedx.initial_range 0",
		"embedx: {rule: naive, weight_bounds: [0, 0]}":   "embedx.weight_bounds [0, 0]",
		"embed: {rule: adagrad, initial_range: 0}":       "",
		"embedx: {rule: naive, weight_bounds: [0, 1.5]}": "",
		"delete_threshold: 0":                            "",
	} {
		_, err := ParseLifecycle([]byte(text))
		_, _, other := ParseAccessor([]byte(text))
		for _, err := range []error{err, other} {
			if bad == "" && err != nil || bad != "" && (err == nil || !strings.Contains(err.Error(), bad)) {
				t.Errorf("%s: %v, want %q", text, err, bad)
			}
		}
	}
}
