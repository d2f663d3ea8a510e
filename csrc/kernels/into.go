package kernels

import "fmt"

// UpdateInto is Update for one row whose new weights belong elsewhere: it reads
// the weights w and writes dst, as long as w, which lies apart or is w itself.
// The state changes in place. A gradient that is not finite changes nothing and
// gives refused 1.
func UpdateInto(rule *Rule, dst, w, state, grad []float32) (refused int) {
	return Best().UpdateInto(rule, dst, w, state, grad)
}

// UpdateInto is the package's UpdateInto at this level.
func (l Level) UpdateInto(rule *Rule, dst, w, state, grad []float32) (refused int) {
	n := len(dst)
	if n == 0 || len(w) != n || len(grad) != n || len(state) != rule.Kind.StateFloats(n) {
		panic(fmt.Sprintf("kernels: update by rule %d of %d floats into %d, with %d gradients and %d floats of state",
			rule.Kind, len(w), n, len(grad), len(state)))
	}
	return l.updateInto(rule, dst, w, state, grad)
}
