package train

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"psrt/sched/dataset"
	"psrt/sched/train/metric"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

func reportOf(task string, preds, labels []float32) *metric.Report {
	a := metric.NewAccumulator(task)
	a.Add(preds, labels)
	return a.Report()
}

// Without an AUC the log loss chooses, and a model without figures is never better.
func TestScore(t *testing.T) {
	auc := score(reportOf(metric.CTR, []float32{.2, .1}, []float32{0, 1}))
	near := score(reportOf(metric.CTR, []float32{.1, .1}, []float32{0, 0}))
	far := score(reportOf(metric.CTR, []float32{.9, .9}, []float32{0, 0}))
	none := score(reportOf(metric.CTR, nil, nil))
	if !(auc >= 0 && 0 > near && near > far && far > none) {
		t.Errorf("AUC %v, log loss %v and %v, no figures %v", auc, near, far, none)
	}
	if a, b := score(reportOf(metric.Regression, []float32{1}, []float32{2})), score(reportOf(metric.Regression, []float32{1}, []float32{9})); a <= b {
		t.Errorf("an RMSE of 1 has the score %v, one of 8 %v", a, b)
	}
}

func TestWarnings(t *testing.T) {
	j := &Job{Model: model.Spec{Task: metric.CTR}, Optimizer: table.Optimizer{Kind: table.Adam, LR: .005}, Reading: dataset.Options{Format: dataset.LibFFM}}
	both := reportOf(metric.CTR, []float32{.5, .5}, []float32{0, 1})
	one := reportOf(metric.CTR, []float32{.5, .5}, []float32{0, 0})
	bad := reportOf(metric.CTR, []float32{.999, .999, .001, .001}, []float32{0, 0, 1, 1})
	large := extreme{Value: 1e6, Field: 3}
	for _, c := range []struct {
		name    string
		epoch   Epoch
		before  []Epoch
		largest extreme
		want    []string
	}{
		{"nothing", Epoch{Train: both, Valid: both}, nil, large, nil},
		{"one class", Epoch{Train: both, Valid: one}, nil, extreme{}, []string{"all 2 labels of the validation data are 0: there is no AUC; the epoch with the least log loss"}},
		{"said before", Epoch{Train: both, Valid: one}, []Epoch{{Train: both, Valid: one}}, extreme{}, nil},
		{"no rows", Epoch{Train: both, Valid: reportOf(metric.CTR, nil, nil)}, nil, extreme{}, []string{"the validation data have no rows"}},
		{"hopeless", Epoch{Epoch: 2, Train: bad}, []Epoch{{Train: both}}, large, []string{"epoch 2: the log loss 6.908 of 4 training rows is worse than the 0.6931 of predicting their mean label: the values of field 3 go up to 1e+06"}},
		{"overfitted, not kept", Epoch{Epoch: 4, Train: both, Valid: bad}, nil, large, nil},
		{"hopeless by rate", Epoch{Epoch: 1, Train: both, Valid: bad, Best: true}, nil, extreme{Value: 1}, []string{"try a --lr below 0.005"}},
	} {
		j.warn(&c.epoch, c.before, c.largest)
		if len(c.epoch.Warnings) != len(c.want) {
			t.Errorf("%s: %q", c.name, c.epoch.Warnings)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(c.epoch.Warnings[i], w) {
				t.Errorf("%s: %q, want %q", c.name, c.epoch.Warnings[i], w)
			}
		}
	}
}

// The largest value is found whatever its sign, with the name that its format gives it.
func TestExtreme(t *testing.T) {
	var x extreme
	x.note(&dataset.Batch{Keys: []uint64{7, 8, 9}, Fields: []uint16{0, 1, 2}, Values: []float32{3, -400, 5}})
	x.note(&dataset.Batch{Keys: []uint64{7}, Fields: []uint16{0}, Values: []float32{1}})
	if x != (extreme{Value: 400, Field: 1, Key: 8}) {
		t.Errorf("%+v", x)
	}
	schema := &dataset.Schema{Columns: []dataset.Column{{Name: "click", Kind: "label"}, {Name: "age", Kind: "numeric"}, {Name: "income", Kind: "numeric"}}}
	for _, c := range []struct {
		of   dataset.Options
		want string
	}{{dataset.Options{Format: dataset.LibFFM}, "field 1"}, {dataset.Options{Format: dataset.LibSVM}, "id 8"}, {dataset.Options{Format: dataset.CSV, Schema: schema}, "column income"}} {
		if got := c.of.NameOf(x.Field, x.Key); got != c.want {
			t.Errorf("%s: %q, want %q", c.of.Format, got, c.want)
		}
	}
}

// Scores that are not finite are counted, and one line says how many.
func TestScoresNotFinite(t *testing.T) {
	var to bytes.Buffer
	s := &Scorer{}
	o, err := s.NewOutputs("", &to, nil)
	if err == nil {
		err = o.Add(&ScoredLeaf{Preds: []float32{.5, float32(math.NaN()), float32(math.Inf(-1))}, Rows: &dataset.Batch{Labels: make([]float32, 3)}})
	}
	if err = errors.Join(err, o.End(nil)); err != nil || o.NotFinite() != 2 || strings.Count(to.String(), "\n") != 3 {
		t.Fatalf("%d of %q, %v", o.NotFinite(), to.String(), err)
	}
	if text := (&Scored{Rows: 3, NotFinite: 2}).Warning(); !strings.HasPrefix(text, "2 of 3 scores are not finite") || (&Scored{Rows: 3}).Warning() != "" {
		t.Error(text)
	}
}
