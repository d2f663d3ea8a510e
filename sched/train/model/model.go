package model

import "math"

// Model is an immutable description of the computation, made by New. Any
// number of Scratches may step it at the same time, one goroutine each.
type Model struct {
	spec   Spec
	layout DenseLayout
	parts  parts
}

// parts is where each tensor lies.
type parts struct {
	bias  span
	deep  []deepPart
	out   span // MLP output -> logit
	cross []crossPart
	tail  span // cross output -> logit
}

type deepPart struct {
	in, out                     int
	weight, bias                span
	gamma, beta, mean, variance span // of batch norm
}

type crossPart struct{ weight, bias span }

// New checks the spec and lays the model out.
func New(spec Spec) (*Model, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	spec.Hidden = append([]int(nil), spec.Hidden...)
	m := &Model{spec: spec}
	if spec.Deep() {
		m.layDeep()
	}
	if spec.Kind == DCN {
		m.layCross()
	}
	m.parts.bias = m.layout.add(Tensor{Name: "bias", Rows: 1, Cols: 1, Init: InitConst, Value: startBias(spec), Rule: RuleGrad})
	return m, nil
}

// Spec returns what the model was made from.
func (m *Model) Spec() Spec {
	s := m.spec
	s.Hidden = append([]int(nil), s.Hidden...)
	return s
}

// Layout describes the dense parameters. The caller must not change it.
func (m *Model) Layout() DenseLayout { return m.layout }

// RowDim is the number of floats in a sparse row: a weight (all kinds but
// dcn), then the embedding (all kinds but lr).
func (m *Model) RowDim() int { return m.weights() + m.embedding() }

// RowScale is the standard deviation of a new embedding's values.
const RowScale = 0.01

func (m *Model) weights() int {
	if m.spec.Kind == DCN {
		return 0
	}
	return 1
}

func (m *Model) embedding() int {
	if m.spec.Kind == LR {
		return 0
	}
	return m.spec.Dim
}

// input is the width of x0.
func (m *Model) input() int { return m.spec.Fields * m.spec.Dim }

func (m *Model) layDeep() {
	in := m.input()
	for i, units := range m.spec.Hidden {
		p := deepPart{in: in, out: units}
		p.weight = m.layout.add(Tensor{Name: name("deep", i, "weight"), Rows: in, Cols: units, Init: InitXavier, Rule: RuleGrad})
		if !m.spec.BatchNorm {
			p.bias = m.layout.add(constant(name("deep", i, "bias"), units, 0, RuleGrad))
		} else { // beta is the bias
			p.gamma = m.layout.add(constant(name("deep", i, "norm.gamma"), units, 1, RuleGrad))
			p.beta = m.layout.add(constant(name("deep", i, "norm.beta"), units, 0, RuleGrad))
			p.mean = m.layout.add(constant(name("deep", i, "norm.mean"), units, 0, RuleEMA))
			p.variance = m.layout.add(constant(name("deep", i, "norm.var"), units, 1, RuleEMA))
		}
		m.parts.deep = append(m.parts.deep, p)
		in = units
	}
	m.parts.out = m.layout.add(Tensor{Name: "out.deep", Rows: in, Cols: 1, Init: InitXavier, Rule: RuleGrad})
}

func (m *Model) layCross() {
	in := m.input()
	for i := range m.spec.CrossLayers {
		m.parts.cross = append(m.parts.cross, crossPart{
			weight: m.layout.add(Tensor{Name: name("cross", i, "weight"), Rows: in, Cols: in, Init: InitXavier, Rule: RuleGrad}),
			bias:   m.layout.add(constant(name("cross", i, "bias"), in, 0, RuleGrad)),
		})
	}
	m.parts.tail = m.layout.add(Tensor{Name: "out.cross", Rows: in, Cols: 1, Init: InitXavier, Rule: RuleGrad})
}

// startBias puts the untrained model at the mean label; a ctr task without one begins at
// a probability of 1/2.
func startBias(s Spec) float32 {
	if s.Task == Regression || s.MeanLabel == 0 {
		return float32(s.MeanLabel)
	}
	p := min(max(s.MeanLabel, 1e-6), 1-1e-6)
	return float32(math.Log(p / (1 - p)))
}

// StartMean is the MeanLabel of a Spec for data whose first rows have this mean. Where all
// labels of a ctr task are the same it is the estimate (k+1/2)/(rows+1) for k clicks: no
// number of rows shows that there is only one class, and 0 would stand for no mean at all.
func StartMean(task string, mean float64, rows int) float64 {
	if task == CTR && rows > 0 && (mean == 0 || mean == 1) {
		return (mean*float64(rows) + 0.5) / float64(rows+1)
	}
	return mean
}
