package train

import (
	"testing"

	"psrt/sched/clock"
	"psrt/sched/train/model"
	"psrt/tiers/table"
)

// Adam's default rate is lower where gradients of rows with many fields may be late, and nowhere else.
func TestDefaultRate(t *testing.T) {
	rowsInStep := map[string]clock.Mode{EmbeddingTable: clock.Fixed(0)}
	for _, c := range []struct {
		kind   string
		model  string
		fields int
		sync   string
		tables map[string]clock.Mode
		least  float32
		most   float32
	}{
		{table.Adam, model.FM, 39, BSP, nil, .005, .005},
		{table.Adam, model.FM, 39, ASP, nil, .00099, .001},
		{table.Adam, model.DeepFM, 39, SSP, nil, .00099, .001},
		{table.Adam, model.FM, 39, ASP, rowsInStep, .005, .005},
		{table.Adam, model.LR, 39, ASP, nil, .005, .005},
		{table.Adam, model.FM, 24, ASP, nil, .0026, .0027},
		{table.Adam, model.FM, 7, ASP, nil, .005, .005},
		{table.Adam, model.FM, 4000, ASP, nil, .001, .001},
		{table.AdaGrad, model.FM, 39, ASP, nil, 0, 0},
	} {
		j := &Job{Sync: c.sync, Staleness: 3, TableSync: c.tables, Model: model.Spec{Kind: c.model, Fields: c.fields}}
		if got := j.RateOf(c.kind); got < c.least || got > c.most {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
