package kernels

// Kind is an update rule.
type Kind int32

// The rules, for weight w, gradient g, with g' = g + L2 w. State lies behind the
// dim weights of a row, in the order named.
const (
	SGD        Kind = iota // w -= LR g'
	AdaGrad                // n[dim]: n += g'^2; w -= LR g' / (sqrt n + Eps)
	RowAdaGrad             // n: n += mean g'^2; w -= LR / (sqrt n + Eps) g'
	Adam                   // m[dim], v[dim], p1, p2: bias-corrected; p are Beta1^t and Beta2^t, 1 in a new row
	FTRL                   // z[dim], n[dim]: FTRL-proximal with L1, L2, Beta; a function of g, not g'
	EMA                    // w = (1-LR) w + LR g: a running average of what is pushed
	Accumulate             // w += g: what was pushed, added up
	Assign                 // w = g: what was pushed last

	// Scaled by the sum before this gradient, which begins at 0; Beta is the g0 that
	// is added to it. None of these has L2.
	PastAdaGrad     // G: w -= LR sqrt(Beta / (Beta + G)) g; then G += mean g^2
	PastAdaGradEach // G[dim]: the same for each weight
	SharedAdam      // m, v, p1, p2: Adam whose moments are the means over the row
)

// StateFloats is the length of the state behind dim weights.
func (k Kind) StateFloats(dim int) int {
	switch k {
	case AdaGrad:
		return dim
	case RowAdaGrad:
		return 1
	case Adam:
		return 2*dim + 2
	case FTRL:
		return 2 * dim
	case PastAdaGrad:
		return 1
	case PastAdaGradEach:
		return dim
	case SharedAdam:
		return 4
	}
	return 0
}

// Rule is a kind with its constants. Its layout is kernels.h's psrt_rule.
type Rule struct {
	Kind                                Kind
	LR, Beta1, Beta2, Eps, L1, L2, Beta float32
}

// tinyPower is where Adam's powers become 0: they would otherwise stick at a
// denormal for ever.
const tinyPower = 1e-30
