package reference

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/train/model"
)

// specs is every kind with every option that changes the arithmetic.
func specs() []model.Spec {
	var out []model.Spec
	for _, kind := range model.Kinds() {
		for _, task := range []string{model.CTR, model.Regression} {
			s := model.Spec{Kind: kind, Dim: 3, Fields: 3, Hidden: []int{5, 4}, CrossLayers: 2, Task: task, Seed: 3, MeanLabel: 0.3}
			out = append(out, s)
			if s.Deep() {
				s.Dropout = 0.4
				out = append(out, s)
				s.BatchNorm = true
				out = append(out, s)
			}
		}
	}
	return out
}

func name(s model.Spec) string {
	return fmt.Sprintf("%s/%s/drop%v/norm%v", s.Kind, s.Task, s.Dropout, s.BatchNorm)
}

// world makes examples over a few keys, and parameters away from zero.
func world(t testing.TB, r *rand.Rand, s model.Spec, examples int) (*Net, []Example, *Params) {
	net, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]Example, examples)
	for i := range data {
		data[i].Label = float64(r.IntN(2))
		for range r.IntN(7) {
			data[i].Features = append(data[i].Features, Feature{Field: r.IntN(3), Key: uint64(r.IntN(9)), Value: r.NormFloat64()})
		}
	}
	p := NewParams(net.layout)
	for _, tensor := range net.layout.Tensors {
		values := p.Dense[tensor.Name]
		for i := range values {
			values[i] = r.NormFloat64() * 0.5
			if strings.HasSuffix(tensor.Name, "norm.var") {
				values[i] = 1 + r.Float64()
			}
		}
	}
	for key := range uint64(9) {
		row := p.row(key, net.rowDim)
		for i := range row {
			row[i] = r.NormFloat64() * 0.5
		}
	}
	return net, data, p
}

// The gradients are the slopes of the loss, for every parameter.
func TestGradientsAreFiniteDifferences(t *testing.T) {
	for _, s := range specs() {
		t.Run(name(s), func(t *testing.T) {
			net, data, p := world(t, seedtest.Fixed(t, 1), s, 12)
			leaf := Leaf{Examples: data, Scale: 1, FirstRow: 77, Epoch: 2, Training: true}
			g := NewParams(net.layout)
			net.Step(leaf, p, g)
			const step = 1e-6
			check := func(what string, values, grads []float64) {
				for i := range values {
					at := values[i]
					values[i] = at + step
					above := net.Step(leaf, p, NewParams(net.layout))
					values[i] = at - step
					below := net.Step(leaf, p, NewParams(net.layout))
					values[i] = at
					slope := (above - below) / (2 * step)
					if math.Abs(slope-grads[i]) > 1e-6*(1+math.Abs(slope)) {
						t.Errorf("%s[%d]: gradient %v, slope %v", what, i, grads[i], slope)
					}
				}
			}
			for _, tensor := range net.layout.Tensors {
				if tensor.Rule == model.RuleGrad {
					check(tensor.Name, p.Dense[tensor.Name], g.Dense[tensor.Name])
				}
			}
			for key, grads := range g.Rows {
				check(fmt.Sprint("row ", key), p.Rows[key], grads)
			}
		})
	}
}

// Batch norm hands out the leaf's statistics times its share of the batch.
func TestNormStatisticsAverageOverTheBatch(t *testing.T) {
	s := model.Spec{Kind: model.DeepFM, Dim: 2, Fields: 3, Hidden: []int{3}, Task: model.CTR, BatchNorm: true}
	net, data, p := world(t, seedtest.Fixed(t, 1), s, 30)
	g := NewParams(net.layout)
	net.Step(Leaf{Examples: data[:10], Scale: 1.0 / 30, Training: true}, p, g)
	net.Step(Leaf{Examples: data[10:], Scale: 1.0 / 30, Training: true}, p, g)
	h := linear(net.pool(data, p), p.Dense["deep.0.weight"], nil, 3)
	mean, _ := statistics(h)
	for j, got := range g.Dense["deep.0.norm.mean"] {
		if math.Abs(got-mean[j]) > 1e-12 {
			t.Errorf("unit %d: pushed mean %v, the batch's is %v", j, got, mean[j])
		}
	}
}

func TestMissingRowsPredictAsZeros(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	for _, s := range specs() {
		net, data, p := world(t, r, s, 5)
		zeros := NewParams(net.layout)
		zeros.Dense = p.Dense
		want := net.Predict(Leaf{Examples: make([]Example, 5)}, p)
		for i, got := range net.Predict(Leaf{Examples: data}, zeros) {
			if got != want[i] {
				t.Errorf("%s: example %d without rows predicts %v, an empty one %v", name(s), i, got, want[i])
			}
		}
	}
}
