package reference

import (
	"math"

	"psrt/sched/train/model"
)

// Params holds values, or gradients, by name and by key.
type Params struct {
	Dense map[string][]float64 // by the names of model.DenseLayout
	Rows  map[uint64][]float64
}

// NewParams is all zeros, without rows.
func NewParams(layout model.DenseLayout) *Params {
	p := &Params{Dense: map[string][]float64{}, Rows: map[uint64][]float64{}}
	for _, t := range layout.Tensors {
		p.Dense[t.Name] = make([]float64, t.Len())
	}
	return p
}

// row returns a row to add to, made at its first use.
func (p *Params) row(key uint64, dim int) []float64 {
	if p.Rows[key] == nil {
		p.Rows[key] = make([]float64, dim)
	}
	return p.Rows[key]
}

// Net is one model.
type Net struct {
	spec   model.Spec
	layout model.DenseLayout
	rowDim int
}

// New makes the net that the spec describes.
func New(spec model.Spec) (*Net, error) {
	m, err := model.New(spec)
	if err != nil {
		return nil, err
	}
	return &Net{spec: m.Spec(), layout: m.Layout(), rowDim: m.RowDim()}, nil
}

// Leaf is what a step's result depends on beside the parameters.
type Leaf struct {
	Examples []Example
	Scale    float64 // 1 / examples of the global batch
	FirstRow uint64
	Epoch    int
	Training bool // batch norm by the leaf's statistics, and dropout
}

// tape is what backward needs of forward.
type tape struct {
	Leaf
	params *Params
	x0     [][]float64
	deep   []layerTape
	cross  []crossTape
}

// Step adds the leaf's gradients to g (and its batch-norm statistics, weighted
// by its share of the batch) and returns the sum of its losses.
func (n *Net) Step(leaf Leaf, p, g *Params) float64 {
	t, z := n.forward(leaf, p)
	loss, dz := 0.0, make([]float64, len(z))
	for i, e := range leaf.Examples {
		l, d := n.loss(z[i], e.Label)
		loss += l
		dz[i] = d * leaf.Scale
	}
	n.backward(t, dz, g)
	return loss
}

// Predict gives a probability (ctr) or value for each example.
func (n *Net) Predict(leaf Leaf, p *Params) []float64 {
	_, z := n.forward(leaf, p)
	for i := range z {
		if n.spec.Task == model.CTR {
			z[i] = 1 / (1 + math.Exp(-z[i]))
		}
	}
	return z
}

// loss is an example's loss and its derivative by the logit.
func (n *Net) loss(z, label float64) (loss, d float64) {
	if n.spec.Task == model.Regression {
		return (z - label) * (z - label), 2 * (z - label)
	}
	return math.Max(z, 0) - label*z + math.Log1p(math.Exp(-math.Abs(z))), 1/(1+math.Exp(-z)) - label
}

// weights is the number of floats before the embedding in a row.
func (n *Net) weights() int {
	if n.spec.Kind == model.DCN {
		return 0
	}
	return 1
}

func (n *Net) hasFM() bool { return n.spec.Kind == model.FM || n.spec.Kind == model.DeepFM }

// pulled is a row's values; what the server does not have counts as zeros.
func (n *Net) pulled(p *Params, key uint64) []float64 {
	if row := p.Rows[key]; row != nil {
		return row
	}
	return make([]float64, n.rowDim)
}

func (n *Net) forward(leaf Leaf, p *Params) (*tape, []float64) {
	t := &tape{Leaf: leaf, params: p}
	z := make([]float64, len(leaf.Examples))
	for i, e := range leaf.Examples {
		z[i] = p.Dense["bias"][0]
		for a, f := range e.Features {
			row := n.pulled(p, f.Key)
			if n.weights() == 1 {
				z[i] += row[0] * f.Value
			}
			if !n.hasFM() {
				continue
			}
			for _, g := range e.Features[:a] { // every pair once
				other := n.pulled(p, g.Key)
				for k := 1; k < n.rowDim; k++ {
					z[i] += row[k] * other[k] * f.Value * g.Value
				}
			}
		}
	}
	if n.spec.Deep() {
		t.x0 = n.pool(leaf.Examples, p)
		n.deepForward(t, z)
	}
	if n.spec.Kind == model.DCN {
		n.crossForward(t, z)
	}
	return t, z
}

// pool sums each field's embeddings times values.
func (n *Net) pool(examples []Example, p *Params) [][]float64 {
	x0 := matrix(len(examples), n.spec.Fields*n.spec.Dim)
	for i, e := range examples {
		for _, f := range e.Features {
			for k, v := range n.pulled(p, f.Key)[n.weights():] {
				x0[i][f.Field*n.spec.Dim+k] += v * f.Value
			}
		}
	}
	return x0
}

func (n *Net) backward(t *tape, dz []float64, g *Params) {
	var dx0 [][]float64
	if n.spec.Deep() {
		dx0 = n.deepBackward(t, dz, g)
	}
	if n.spec.Kind == model.DCN {
		n.crossBackward(t, dz, dx0, g)
	}
	for i, e := range t.Examples {
		g.Dense["bias"][0] += dz[i]
		for a, f := range e.Features {
			grad := g.row(f.Key, n.rowDim)
			if n.weights() == 1 {
				grad[0] += dz[i] * f.Value
			}
			for b, other := range e.Features {
				if !n.hasFM() || a == b {
					continue
				}
				for k := 1; k < n.rowDim; k++ {
					grad[k] += dz[i] * f.Value * other.Value * n.pulled(t.params, other.Key)[k]
				}
			}
			if dx0 == nil {
				continue
			}
			for k := range n.spec.Dim {
				grad[n.weights()+k] += dx0[i][f.Field*n.spec.Dim+k] * f.Value
			}
		}
	}
}

func matrix(rows, cols int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, cols)
	}
	return m
}
