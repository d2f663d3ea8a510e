package nn

// Level is the instruction level that runs the kernels. All give equal bits;
// only tests and benchmarks have reason to use another than Best.
type Level int

// The levels.
const (
	Plain Level = iota
	AVX2
	AVX512
)

// Mask describes one layer's dropout over one leaf. A unit's fate is a hash of
// (Key, row, unit), whoever computes the row.
type Mask struct {
	Rate     float32 // share of units zeroed, 0 to less than 1; the others grow by 1/(1-Rate)
	Key      uint64  // of (seed, epoch, layer): see MaskKey
	FirstRow uint64  // number of the leaf's first example
}

// MaskKey mixes what numbers a layer's masks, beside the row, into one word.
func MaskKey(seed, epoch, layer uint64) uint64 { return mix(mix(mix(seed)+epoch) + layer) }

// Words are what a kernel elsewhere needs of a mask, beside Key and FirstRow: see
// csrc/ptx's dense.h.
func (m Mask) Words() (drop uint32, inverseKeep float32) { return m.drop(), m.inverseKeep() }

// drop is the rate in 2^-24, the resolution of the hash.
func (m Mask) drop() uint32 { return uint32(m.Rate * (1 << 24)) }

func (m Mask) inverseKeep() float32 { return 1 / (1 - m.Rate) }

// LogLoss takes logits z and labels 0 or 1 and writes predictions (the
// probabilities) and g = d loss / d z times scale. It returns the sum of the
// examples' losses, exact to about 1e-12 a example however large the logit.
func (v Level) LogLoss(scale float32, z, labels, g, preds []float32) float64 {
	need("labels", len(labels), len(z))
	need("logit gradients", len(g), len(z))
	need("predictions", len(preds), len(z))
	return v.logLoss(scale, z, labels, g, preds)
}

// SquareLoss is LogLoss for the loss (z-label)^2, whose prediction is z.
func (v Level) SquareLoss(scale float32, z, labels, g []float32) float64 {
	need("labels", len(labels), len(z))
	need("logit gradients", len(g), len(z))
	return v.squareLoss(scale, z, labels, g)
}

// Sigmoid writes the probabilities of logits z.
func (v Level) Sigmoid(z, preds []float32) {
	need("predictions", len(preds), len(z))
	v.sigmoid(z, preds)
}

// Activate does a = dropout(relu(a*scale + shift)) in place, column-wise for
// a [n x len(shift)]; a nil scale is 1. A NaN stays a NaN.
func (v Level) Activate(n int, a, scale, shift []float32, mask Mask) {
	units := len(shift)
	need("activations", len(a), n*units)
	if scale != nil {
		need("scales", len(scale), units)
	}
	v.activate(n, units, a, scale, shift, mask)
}

// ActivateBack turns d, the gradient of Activate's output a, into that of its
// input a*scale+shift, in place, and writes its column sums to db.
func (v Level) ActivateBack(n int, a, d, db []float32, mask Mask) {
	units := len(db)
	need("activations", len(a), n*units)
	need("activation gradients", len(d), n*units)
	v.activateBack(n, units, a, d, db, mask.inverseKeep())
}

// Normalize brings every column of z [n x units] to mean 0 and variance 1 in
// place, and writes the column means, the biased variances, and
// 1/sqrt(variance + NormEps).
func (v Level) Normalize(n int, z, mean, variance, inverse []float32) {
	units := len(mean)
	need("inputs of batch norm", len(z), n*units)
	need("variances", len(variance), units)
	need("inverse deviations", len(inverse), units)
	if n > 0 {
		v.normalize(n, units, z, mean, variance, inverse)
	}
}

// NormEps keeps a constant column finite.
const NormEps = 1e-5

// NormalizeBack turns d, the gradient of gamma*normalized+beta, into that of
// Normalize's input, in place, and writes dgamma; dbeta is the column sum of d.
func (v Level) NormalizeBack(n int, normalized, gamma, inverse, d, dgamma, dbeta []float32) {
	units := len(gamma)
	need("normalized", len(normalized), n*units)
	need("inverse deviations", len(inverse), units)
	need("gradients", len(d), n*units)
	need("scale gradients", len(dgamma), units)
	need("shift gradients", len(dbeta), units)
	v.normalizeBack(n, units, normalized, gamma, inverse, d, dgamma, dbeta)
}

// Output adds each row of a [len(z) x len(w)] times w to the logits.
func (v Level) Output(a, w, z []float32) {
	need("outputs", len(a), len(z)*len(w))
	v.output(len(z), len(w), a, w, z)
}

// OutputBack writes the gradients d of a and dw of w, given that of the logits.
func (v Level) OutputBack(a, w, g, d, dw []float32) {
	need("outputs", len(a), len(g)*len(w))
	need("output gradients", len(d), len(g)*len(w))
	need("weight gradients", len(dw), len(w))
	v.outputBack(len(g), len(w), a, w, g, d, dw)
}

// Cross does u = u + bias and out = x0*u + x, element by element [n x units].
func (v Level) Cross(n int, x0, x, bias, u, out []float32) {
	units := len(bias)
	need("x0", len(x0), n*units)
	need("x", len(x), n*units)
	need("u", len(u), n*units)
	need("out", len(out), n*units)
	v.cross(n, units, x0, x, bias, u, out)
}

// CrossBack takes d, the gradient of Cross's out, and writes du and its column
// sums db, and adds to dx0. The gradient of x by this path is d itself.
func (v Level) CrossBack(n int, x0, u, d, du, dx0, db []float32) {
	units := len(db)
	need("x0", len(x0), n*units)
	need("u", len(u), n*units)
	need("out gradients", len(d), n*units)
	need("u gradients", len(du), n*units)
	need("x0 gradients", len(dx0), n*units)
	v.crossBack(n, units, x0, u, d, du, dx0, db)
}

// String names the level.
func (v Level) String() string {
	switch v {
	case AVX512:
		return "avx512"
	case AVX2:
		return "avx2"
	default:
		return "plain"
	}
}
