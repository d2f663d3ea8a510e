package reference

import (
	"fmt"

	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// Config describes a whole training.
type Config struct {
	Spec          model.Spec
	Sparse, Dense table.Optimizer
	// EMARate is how far batch norm's running statistics go towards a global
	// batch's: value = (1-EMARate)*value + EMARate*pushed.
	EMARate float64
	Batch   int // examples in a global batch
	Leaf    int // examples in a leaf
	// Start is the dense parameters in layout order; nil takes InitDense's.
	Start []float32
	// Birth gives a new row's starting weights.
	Birth func(key uint64) []float32
}

// Trainer trains in one process, in order, in float64.
type Trainer struct {
	Params *Params
	net    *Net
	config Config
	sparse optimizer
	dense  optimizer
	rows   map[uint64]*state
	blocks map[string]*state
}

// NewTrainer starts from the config's values.
func NewTrainer(c Config) (*Trainer, error) {
	m, err := model.New(c.Spec)
	if err != nil {
		return nil, err
	}
	net, err := New(c.Spec)
	if err != nil {
		return nil, err
	}
	if c.Batch < 1 || c.Leaf < 1 {
		return nil, fmt.Errorf("reference: batch of %d in leaves of %d, both must be at least 1", c.Batch, c.Leaf)
	}
	if c.Start == nil {
		c.Start = make([]float32, m.Layout().Total)
		if err := m.InitDense(c.Start); err != nil {
			return nil, err
		}
	}
	t := &Trainer{Params: NewParams(m.Layout()), net: net, config: c, rows: map[uint64]*state{}, blocks: map[string]*state{}}
	if t.sparse, err = newOptimizer(c.Sparse); err != nil {
		return nil, err
	}
	if t.dense, err = newOptimizer(c.Dense); err != nil {
		return nil, err
	}
	for _, tensor := range m.Layout().Tensors {
		for i := range t.Params.Dense[tensor.Name] {
			t.Params.Dense[tensor.Name][i] = float64(c.Start[tensor.Offset+i])
		}
		t.blocks[tensor.Name] = t.dense.start(tensor.Len())
	}
	return t, nil
}

// Epoch trains one pass in the order of the data and returns the mean loss.
func (t *Trainer) Epoch(data []Example, epoch int) float64 {
	total := 0.0
	for first := 0; first < len(data); first += t.config.Batch {
		last := min(first+t.config.Batch, len(data))
		total += t.step(data[first:last], uint64(first), epoch)
	}
	return total / float64(len(data))
}

// step does one global batch.
func (t *Trainer) step(batch []Example, firstRow uint64, epoch int) float64 {
	for _, e := range batch {
		for _, f := range e.Features {
			t.born(f.Key)
		}
	}
	grads, loss := NewParams(t.net.layout), 0.0
	for first := 0; first < len(batch); first += t.config.Leaf {
		last := min(first+t.config.Leaf, len(batch))
		loss += t.net.Step(Leaf{Examples: batch[first:last], Scale: 1 / float64(len(batch)),
			FirstRow: firstRow + uint64(first), Epoch: epoch, Training: true}, t.Params, grads)
	}
	for key, g := range grads.Rows {
		t.sparse.update(t.rows[key], t.Params.Rows[key], g)
	}
	for _, tensor := range t.net.layout.Tensors {
		values, g := t.Params.Dense[tensor.Name], grads.Dense[tensor.Name]
		if tensor.Rule == model.RuleEMA {
			for i := range values {
				values[i] += t.config.EMARate * (g[i] - values[i])
			}
			continue
		}
		t.dense.update(t.blocks[tensor.Name], values, g)
	}
	return loss
}

func (t *Trainer) born(key uint64) {
	if t.Params.Rows[key] != nil {
		return
	}
	row := make([]float64, t.net.rowDim)
	for i, v := range t.config.Birth(key) {
		row[i] = float64(v)
	}
	t.Params.Rows[key] = row
	t.rows[key] = t.sparse.start(len(row))
}

// Predict scores examples with the model as it is.
func (t *Trainer) Predict(data []Example) []float64 {
	return t.net.Predict(Leaf{Examples: data}, t.Params)
}
