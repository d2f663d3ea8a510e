package train

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"psrt/sched/server"
	"psrt/sched/train/model"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/dram"
	"psrt/tiers/export"
	"psrt/tiers/export/inference"
	"psrt/tiers/export/outdir"
	"psrt/tiers/table"
)

// tableID is the one table's that a model of the trainer has.
const tableID = 1

// Scorer is a model in this process, without servers: what `psrt eval` and `psrt
// predict` use. What training left is read into memory; what `psrt export` made
// for inference is mapped, and read where it lies. One goroutine uses it.
type Scorer struct {
	Info  ModelInfo
	model *model.Model
	rows  scorerRows
	dense []float32
}

// scorerRows gives weights to several goroutines; zeros where there is no row.
type scorerRows interface {
	gather(keys []uint64, dst []float32) error
	count() (int64, error)
	close() error
}

// Close frees the model.
func (s *Scorer) Close() error { return s.rows.close() }

// Rows is the number of features the model has.
func (s *Scorer) Rows() (int64, error) { return s.rows.count() }

// LoadScorer reads a model: a directory of `psrt train --out`, the place of a
// history (generation number, 0 the newest), or an export for inference.
func LoadScorer(ctx context.Context, dir string, number uint64) (*Scorer, error) {
	s, saved, err := describeScorer(ctx, dir, number)
	if err != nil || saved == nil {
		return s, err
	}
	rows, err := loadRows(ctx, saved, saved.Spec(tableID))
	if err != nil {
		return nil, saved.Advise(ctx, err)
	}
	s.rows = rows
	return s, nil
}

// ModelAt reads what a model says about itself, and which generation of a history it is.
// serves: servers can begin with it, which takes the optimizer's state, too.
func ModelAt(ctx context.Context, dir string, number uint64) (info *ModelInfo, generation uint64, serves bool, err error) {
	s, saved, err := describeScorer(ctx, dir, number)
	if err != nil {
		return nil, 0, false, err
	}
	if saved != nil {
		return &s.Info, saved.Number, !saved.WeightsOnly, nil
	}
	return &s.Info, 0, false, s.Close()
}

// describeScorer is a model without its rows, and what has them; an export has them
// already, and the latter is nil.
func describeScorer(ctx context.Context, dir string, number uint64) (*Scorer, *ckpt.Model, error) {
	if outdir.IsExport(dir) {
		if entries, err := ckpt.List(ctx, dir); err == nil && len(entries) > 0 {
			return nil, nil, &InputError{fmt.Errorf("train: %s holds an export (%s) and a trained model: it cannot be known which of them is meant; move one of them to a directory of its own", dir, outdir.ManifestName)}
		}
		s, err := mapScorer(dir)
		return s, nil, err
	}
	saved, err := ckpt.OpenAt(ctx, dir, number)
	if err != nil {
		return nil, nil, &InputError{err}
	}
	s, err := newScorer(dir, saved.Meta, saved.Spec(tableID))
	if err != nil {
		return nil, nil, err
	}
	if err := s.loadDense(ctx, saved); err != nil {
		return nil, nil, &InputError{err}
	}
	return s, saved, nil
}

// mapScorer opens an export.
func mapScorer(dir string) (*Scorer, error) {
	m, err := export.Open(dir)
	if err != nil {
		return nil, &InputError{err}
	}
	var spec *table.Spec
	for i := range m.Tables {
		if m.Tables[i].Spec.ID == tableID {
			spec = &m.Tables[i].Spec
		}
	}
	s, err := newScorer(dir, m.Source.Meta, spec)
	if err == nil {
		s.rows, s.dense = mapped{m, m.Table(tableID)}, m.DenseVector(server.DenseID)
		if want := s.model.Layout().Total; len(s.dense) != want {
			err = &InputError{fmt.Errorf("train: %s: it has %d dense parameters, its model wants %d", dir, len(s.dense), want)}
		}
	}
	if err != nil {
		_ = m.Close() // the error that matters is err
		return nil, err
	}
	return s, nil
}

// newScorer understands a model's description.
func newScorer(dir string, meta json.RawMessage, spec *table.Spec) (*Scorer, error) {
	s := &Scorer{}
	if err := json.Unmarshal(meta, &s.Info); err != nil {
		return nil, &InputError{fmt.Errorf("train: %s: the model's description is not understood: %w", dir, err)}
	}
	var err error
	if s.model, err = model.New(s.Info.Model); err != nil {
		return nil, &InputError{fmt.Errorf("train: %s: %w", dir, err)}
	}
	if spec == nil || spec.Dim != s.model.RowDim() {
		return nil, &InputError{fmt.Errorf("train: %s: its table does not fit its model (%s, rows of %d floats)", dir, s.Info.Model.Kind, s.model.RowDim())}
	}
	return s, nil
}

// loaded is a table in memory. Its look-ups are one at a time.
type loaded struct {
	mu   sync.Mutex
	rows *dram.Table
	ids  []uint32
}

func (l *loaded) gather(keys []uint64, dst []float32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = grow(l.ids, len(keys))
	if _, err := l.rows.Lookup(keys, l.ids, false); err != nil {
		return err
	}
	l.rows.Gather(l.ids, dst)
	return nil
}

func (l *loaded) count() (int64, error) { return int64(l.rows.Len()), nil }
func (l *loaded) close() error          { return l.rows.Close() }

// loadRows reads what a pull of each row would give.
func loadRows(ctx context.Context, saved *ckpt.Model, spec *table.Spec) (*loaded, error) {
	// Only weights are needed: rows of SGD without a lifecycle have nothing else.
	weights := table.Spec{Name: spec.Name, ID: spec.ID, Dim: spec.Dim, Optimizer: table.Optimizer{Kind: table.SGD}.WithDefaults()}
	rows, err := dram.New(weights, 0, dram.Config{Node: -1})
	if err != nil {
		return nil, err
	}
	width := spec.RowFloats()
	var view *accessor.View
	switch {
	case saved.WeightsOnly:
		width = spec.Dim
	case spec.Lifecycle != nil:
		var memo accessor.Memo
		if memo, err = accessor.ParseMemo(saved.Lifecycle[spec.ID]); err == nil {
			view, err = accessor.NewView(*spec, memo.History)
		}
	}
	if err == nil {
		var batch []float32
		err = saved.Rows(ctx, spec.ID, 1, nil, func(keys []uint64, stored []float32) error {
			batch = grow(batch, len(keys)*spec.Dim)
			for i := range keys {
				row, out := stored[i*width:(i+1)*width], batch[i*spec.Dim:(i+1)*spec.Dim]
				if view != nil {
					view.Weights(row, out)
				} else {
					copy(out, row)
				}
			}
			return rows.LoadRows(keys, batch)
		})
	}
	if err != nil {
		_ = rows.Close() // the error that matters is err
		return nil, &InputError{err}
	}
	return &loaded{rows: rows}, nil
}

func (s *Scorer) loadDense(ctx context.Context, saved *ckpt.Model) error {
	s.dense = make([]float32, s.model.Layout().Total)
	return saved.DenseBlocks(ctx, server.DenseID, func(first int64, values, _ []float32) error {
		if first < 0 || int(first)+len(values) > len(s.dense) {
			return fmt.Errorf("train: dense elements %d to %d of %d", first, int(first)+len(values), len(s.dense))
		}
		copy(s.dense[first:], values)
		return nil
	})
}

// mapped is a table of an export.
type mapped struct {
	m     *export.Model
	table *inference.Table
}

func (m mapped) gather(keys []uint64, dst []float32) error {
	_, err := m.table.Gather(keys, dst)
	return err
}

func (m mapped) count() (int64, error) { return m.table.Len(), nil }
func (m mapped) close() error          { return m.m.Close() }

// DenseViews are the layers of a trainer's model, as an export names them; nil
// for a model that is not a trainer's.
func DenseViews(meta json.RawMessage) map[uint32][]export.View {
	var info ModelInfo
	if json.Unmarshal(meta, &info) != nil {
		return nil
	}
	m, err := model.New(info.Model)
	if err != nil {
		return nil
	}
	var views []export.View
	for _, t := range m.Layout().Tensors {
		views = append(views, export.View{Name: t.Name, Offset: int64(t.Offset), Rows: int64(t.Rows), Cols: int64(t.Cols)})
	}
	return map[uint32][]export.View{server.DenseID: views}
}
