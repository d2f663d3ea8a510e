//go:build cgo

package nn

// ISO mode (-std=c11) is how GCC is told never to contract a*b+c; cgo refuses
// the flag that says so by name.

// #cgo CFLAGS: -O3 -std=c11 -Wall -Wextra
// #cgo LDFLAGS: -lm
// #cgo noescape psrt_nn_sparse_forward
// #cgo nocallback psrt_nn_sparse_forward
// #cgo noescape psrt_nn_sparse_backward
// #cgo nocallback psrt_nn_sparse_backward
// #cgo noescape psrt_nn_log_loss
// #cgo nocallback psrt_nn_log_loss
// #cgo noescape psrt_nn_square_loss
// #cgo nocallback psrt_nn_square_loss
// #cgo noescape psrt_nn_sigmoid
// #cgo nocallback psrt_nn_sigmoid
// #cgo noescape psrt_nn_activate
// #cgo nocallback psrt_nn_activate
// #cgo noescape psrt_nn_activate_back
// #cgo nocallback psrt_nn_activate_back
// #cgo noescape psrt_nn_normalize
// #cgo nocallback psrt_nn_normalize
// #cgo noescape psrt_nn_normalize_back
// #cgo nocallback psrt_nn_normalize_back
// #cgo noescape psrt_nn_output
// #cgo nocallback psrt_nn_output
// #cgo noescape psrt_nn_output_back
// #cgo nocallback psrt_nn_output_back
// #cgo noescape psrt_nn_cross
// #cgo nocallback psrt_nn_cross
// #cgo noescape psrt_nn_cross_back
// #cgo nocallback psrt_nn_cross_back
// #include "nn.h"
import "C"

import "unsafe"

// Best is the highest level this CPU has.
func Best() Level { return Level(C.psrt_nn_best_level()) }

func floats(s []float32) *C.float   { return (*C.float)(unsafe.Pointer(unsafe.SliceData(s))) }
func ints(s []int32) *C.int32_t     { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(s))) }
func fields(s []uint16) *C.uint16_t { return (*C.uint16_t)(unsafe.Pointer(unsafe.SliceData(s))) }

func (v Level) sparseForward(x *Sparse, bias float32, z, s, x0 []float32) {
	C.psrt_nn_sparse_forward(C.int(v), C.int(x.Parts), C.int32_t(x.Len()), C.int32_t(x.RowDim), C.int32_t(x.Dim), C.int32_t(x.Fields),
		ints(x.Offsets), ints(x.Occ), ints(x.Uniq), fields(x.Field), floats(x.Values), floats(x.Matrix),
		C.float(bias), floats(z), floats(s), floats(x0))
}

func (v Level) sparseBackward(x *Sparse, g, s, dx0, rows []float32) {
	C.psrt_nn_sparse_backward(C.int(v), C.int(x.Parts), C.int32_t(x.Len()), C.int32_t(x.RowDim), C.int32_t(x.Dim), C.int32_t(x.Fields),
		C.int32_t(len(x.Uniq)), ints(x.Offsets), ints(x.Occ), ints(x.Uniq), fields(x.Field), floats(x.Values), floats(x.Matrix),
		floats(g), floats(s), floats(dx0), floats(rows))
}

func (v Level) logLoss(scale float32, z, labels, g, preds []float32) float64 {
	return float64(C.psrt_nn_log_loss(C.int(v), C.int32_t(len(z)), C.float(scale), floats(z), floats(labels), floats(g), floats(preds)))
}

func (v Level) squareLoss(scale float32, z, labels, g []float32) float64 {
	return float64(C.psrt_nn_square_loss(C.int(v), C.int32_t(len(z)), C.float(scale), floats(z), floats(labels), floats(g)))
}

func (v Level) sigmoid(z, preds []float32) {
	C.psrt_nn_sigmoid(C.int(v), C.int32_t(len(z)), floats(z), floats(preds))
}

func (v Level) activate(n, units int, a, scale, shift []float32, mask Mask) {
	C.psrt_nn_activate(C.int(v), C.int32_t(n), C.int32_t(units), floats(a), floats(scale), floats(shift),
		C.uint32_t(mask.drop()), C.float(mask.inverseKeep()), C.uint64_t(mask.Key), C.uint64_t(mask.FirstRow))
}

func (v Level) activateBack(n, units int, a, d, db []float32, inverseKeep float32) {
	C.psrt_nn_activate_back(C.int(v), C.int32_t(n), C.int32_t(units), floats(a), C.float(inverseKeep), floats(d), floats(db))
}

func (v Level) normalize(n, units int, z, mean, variance, inverse []float32) {
	C.psrt_nn_normalize(C.int(v), C.int32_t(n), C.int32_t(units), floats(z), floats(mean), floats(variance), floats(inverse))
}

func (v Level) normalizeBack(n, units int, normalized, gamma, inverse, d, dgamma, dbeta []float32) {
	C.psrt_nn_normalize_back(C.int(v), C.int32_t(n), C.int32_t(units), floats(normalized), floats(gamma), floats(inverse),
		floats(d), floats(dgamma), floats(dbeta))
}

func (v Level) output(n, units int, a, w, z []float32) {
	C.psrt_nn_output(C.int(v), C.int32_t(n), C.int32_t(units), floats(a), floats(w), floats(z))
}

func (v Level) outputBack(n, units int, a, w, g, d, dw []float32) {
	C.psrt_nn_output_back(C.int(v), C.int32_t(n), C.int32_t(units), floats(a), floats(w), floats(g), floats(d), floats(dw))
}

func (v Level) cross(n, units int, x0, x, bias, u, out []float32) {
	C.psrt_nn_cross(C.int(v), C.int32_t(n), C.int32_t(units), floats(x0), floats(x), floats(bias), floats(u), floats(out))
}

func (v Level) crossBack(n, units int, x0, u, d, du, dx0, db []float32) {
	C.psrt_nn_cross_back(C.int(v), C.int32_t(n), C.int32_t(units), floats(x0), floats(u), floats(d), floats(du), floats(dx0), floats(db))
}
