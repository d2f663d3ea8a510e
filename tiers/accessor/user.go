package accessor

import (
	"fmt"

	"psrt/csrc/rule"
	"psrt/tiers/table"
)

// Complete fills in what only the library of a user's rule knows, and tries the
// rule. Other descriptions are returned as they are.
func Complete(spec table.Spec) (table.Spec, error) {
	o := &spec.Optimizer
	if o.Kind != table.User {
		return spec, nil
	}
	facts, err := rule.Try(o.Library, o.Params, spec.Dim)
	if err != nil {
		return spec, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	o.Rule, o.State, o.Ordered = facts.Name, facts.State, facts.Ordered
	return spec, nil
}

// openUser opens the rule of a completed description.
func openUser(spec table.Spec) (*rule.Rule, error) {
	o := &spec.Optimizer
	r, err := rule.Open(o.Library, o.Params, spec.Dim)
	if err != nil {
		return nil, fmt.Errorf("table %q: %w", spec.Name, err)
	}
	if got, want := r.Facts, (rule.Facts{Name: o.Rule, State: o.State, Ordered: o.Ordered}); got != want {
		r.Close()
		return nil, fmt.Errorf("table %q: library %s has become another rule: %+v, was %+v", spec.Name, o.Library, got, want)
	}
	return r, nil
}
