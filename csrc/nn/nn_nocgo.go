//go:build !cgo

package nn

// Best is the plain form: there is no other without cgo.
func Best() Level { return Plain }

func (Level) sparseForward(x *Sparse, bias float32, z, s, x0 []float32) {
	portableForward(x, bias, z, s, x0)
}

func (Level) sparseBackward(x *Sparse, g, s, dx0, rows []float32) {
	portableBackward(x, g, s, dx0, rows)
}

func (Level) logLoss(scale float32, z, labels, g, preds []float32) float64 {
	return portableLogLoss(scale, z, labels, g, preds)
}

func (Level) squareLoss(scale float32, z, labels, g []float32) float64 {
	return portableSquareLoss(scale, z, labels, g)
}

func (Level) sigmoid(z, preds []float32) {
	portableSigmoid(z, preds)
}

func (Level) activate(n, units int, a, scale, shift []float32, mask Mask) {
	portableActivate(n, units, a, scale, shift, mask)
}

func (Level) activateBack(n, units int, a, d, db []float32, inverseKeep float32) {
	portableActivateBack(n, units, a, d, db, inverseKeep)
}

func (Level) normalize(n, units int, z, mean, variance, inverse []float32) {
	portableNormalize(n, units, z, mean, variance, inverse)
}

func (Level) normalizeBack(n, units int, normalized, gamma, inverse, d, dgamma, dbeta []float32) {
	portableNormalizeBack(n, units, normalized, gamma, inverse, d, dgamma, dbeta)
}

func (Level) output(n, units int, a, w, z []float32) {
	portableOutput(n, units, a, w, z)
}

func (Level) outputBack(n, units int, a, w, g, d, dw []float32) {
	portableOutputBack(n, units, a, w, g, d, dw)
}

func (Level) cross(n, units int, x0, x, bias, u, out []float32) {
	portableCross(n, units, x0, x, bias, u, out)
}

func (Level) crossBack(n, units int, x0, u, d, du, dx0, db []float32) {
	portableCrossBack(n, units, x0, u, d, du, dx0, db)
}
