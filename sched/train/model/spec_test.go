package model_test

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"

	"psrt/sched/train/model"
	"psrt/tiers/table"
)

func TestSpecsThatMakeNoSenseAreRefused(t *testing.T) {
	good := model.Spec{Kind: model.DCN, Dim: 4, Fields: 3, Hidden: []int{8}, CrossLayers: 2, Task: model.CTR}
	if _, err := model.New(good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names string // what the error must name
		spoil func(s *model.Spec)
	}{
		{"\"dnn\"", func(s *model.Spec) { s.Kind = "dnn" }},
		{"\"rank\"", func(s *model.Spec) { s.Task = "rank" }},
		{"dimension 0", func(s *model.Spec) { s.Dim = 0 }},
		{"dimension -1", func(s *model.Spec) { s.Kind, s.Dim = model.FM, -1 }},
		{"dimension 5000", func(s *model.Spec) { s.Dim = 5000 }},
		{"0 fields", func(s *model.Spec) { s.Fields = 0 }},
		{"input of 1024000", func(s *model.Spec) { s.Fields, s.Dim = 1000, 1024 }},
		{"0 hidden", func(s *model.Spec) { s.Hidden = nil }},
		{"layer 1 has 0", func(s *model.Spec) { s.Hidden = []int{4, 0} }},
		{"dropout 1", func(s *model.Spec) { s.Dropout = 1 }},
		{"dropout -0.5", func(s *model.Spec) { s.Dropout = -0.5 }},
		{"dropout NaN", func(s *model.Spec) { s.Dropout = float32(math.NaN()) }},
		{"0 cross", func(s *model.Spec) { s.CrossLayers = 0 }},
		{"label NaN", func(s *model.Spec) { s.MeanLabel = math.NaN() }},
		{"label 2", func(s *model.Spec) { s.MeanLabel = 2 }},
	} {
		s := good
		c.spoil(&s)
		if _, err := model.New(s); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("error %v, want one that names %s", err, c.names)
		}
	}
}

// The layout is part of the format of a saved model: names and order stay.
func TestLayout(t *testing.T) {
	for _, c := range []struct {
		spec model.Spec
		want string
		row  int
		init table.Init
	}{
		{model.Spec{Kind: model.LR}, "bias 1x1 const grad", 1, table.Init{Kind: "zero"}},
		{model.Spec{Kind: model.FM, Dim: 16}, "bias 1x1 const grad", 17, table.Init{ZeroPrefix: 1, Kind: "normal", Scale: 0.01}},
		{model.Spec{Kind: model.DeepFM, Dim: 2, Fields: 3, Hidden: []int{5, 4}},
			"deep.0.weight 6x5 xavier grad; deep.0.bias 1x5 const grad; deep.1.weight 5x4 xavier grad; deep.1.bias 1x4 const grad; out.deep 4x1 xavier grad; bias 1x1 const grad",
			3, table.Init{ZeroPrefix: 1, Kind: "normal", Scale: 0.01}},
		{model.Spec{Kind: model.WideDeep, Dim: 2, Fields: 3, Hidden: []int{5}, BatchNorm: true},
			"deep.0.weight 6x5 xavier grad; deep.0.norm.gamma 1x5 const grad; deep.0.norm.beta 1x5 const grad; deep.0.norm.mean 1x5 const ema; deep.0.norm.var 1x5 const ema; out.deep 5x1 xavier grad; bias 1x1 const grad",
			3, table.Init{ZeroPrefix: 1, Kind: "normal", Scale: 0.01}},
		{model.Spec{Kind: model.DCN, Dim: 2, Fields: 3, Hidden: []int{5}, CrossLayers: 1},
			"deep.0.weight 6x5 xavier grad; deep.0.bias 1x5 const grad; out.deep 5x1 xavier grad; cross.0.weight 6x6 xavier grad; cross.0.bias 1x6 const grad; out.cross 6x1 xavier grad; bias 1x1 const grad",
			2, table.Init{Kind: "normal", Scale: 0.01}},
	} {
		c.spec.Task = model.CTR
		m, err := model.New(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		total := 0
		for _, x := range m.Layout().Tensors {
			got = append(got, fmt.Sprintf("%s %dx%d %s %s", x.Name, x.Rows, x.Cols, x.Init, x.Rule))
			if x.Offset != total {
				t.Errorf("%s: %s begins at %d, want %d", c.spec.Kind, x.Name, x.Offset, total)
			}
			total += x.Len()
		}
		if s := strings.Join(got, "; "); s != c.want || total != m.Layout().Total {
			t.Errorf("%s: layout %s of %d, want %s of %d", c.spec.Kind, s, m.Layout().Total, c.want, total)
		}
		if m.RowDim() != c.row || m.RowInit() != c.init {
			t.Errorf("%s: rows of %d started by %+v, want %d by %+v", c.spec.Kind, m.RowDim(), m.RowInit(), c.row, c.init)
		}
	}
}

func TestBiasStartsAtTheMeanLabel(t *testing.T) {
	for _, c := range []struct {
		task       string
		mean, want float64
	}{{model.CTR, 0.8, math.Log(4)}, {model.CTR, 0, 0}, {model.CTR, 1, math.Log(1e6 - 1)}, {model.Regression, 3.5, 3.5}} {
		m, err := model.New(model.Spec{Kind: model.LR, Task: c.task, MeanLabel: c.mean})
		if err != nil {
			t.Fatal(err)
		}
		dense := []float32{9}
		if err := m.InitDense(dense); err != nil {
			t.Fatal(err)
		}
		if math.Abs(float64(dense[0])-c.want) > 1e-5 {
			t.Errorf("%s with mean %v: bias %v, want %v", c.task, c.mean, dense[0], c.want)
		}
	}
}

// Rows of one class start the model far from 1/2, not at it, and not at certainty.
func TestStartMean(t *testing.T) {
	for _, c := range []struct {
		task       string
		mean       float64
		rows       int
		want, bias float64
	}{
		{model.CTR, 0, 999, .0005, math.Log(.0005 / .9995)}, {model.CTR, 1, 999, .9995, math.Log(.9995 / .0005)},
		{model.CTR, .25, 100, .25, -math.Log(3)}, {model.CTR, 0, 0, 0, 0}, {model.Regression, 0, 100, 0, 0}, {model.Regression, 1, 100, 1, 1},
	} {
		got := model.StartMean(c.task, c.mean, c.rows)
		if math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s, mean %v of %d rows: %v, want %v", c.task, c.mean, c.rows, got, c.want)
		}
		m, err := model.New(model.Spec{Kind: model.LR, Task: c.task, MeanLabel: got})
		if err != nil {
			t.Fatal(err)
		}
		dense := []float32{9}
		if err := m.InitDense(dense); err != nil || math.Abs(float64(dense[0])-c.bias) > 1e-5 {
			t.Errorf("%s, mean %v of %d rows: bias %v, %v, want %v", c.task, c.mean, c.rows, dense[0], err, c.bias)
		}
	}
}

// Starting values are a format too: a job restarted by a newer build with the
// same seed must begin with the same bits.
func TestInitDenseIsFixedForEver(t *testing.T) {
	spec := model.Spec{Kind: model.DCN, Dim: 16, Fields: 7, Hidden: []int{64, 32}, CrossLayers: 2, Task: model.CTR, Seed: 1, BatchNorm: true}
	start := func(seed uint64) []float32 {
		spec.Seed = seed
		m, err := model.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		dense := make([]float32, m.Layout().Total)
		if err := m.InitDense(dense); err != nil {
			t.Fatal(err)
		}
		if m.InitDense(dense[1:]) == nil {
			t.Fatal("a short slice was accepted")
		}
		return dense
	}
	one := start(1)
	h := fnv.New64a()
	for _, v := range one {
		fmt.Fprintf(h, "%08x", math.Float32bits(v))
	}
	if got, want := h.Sum64(), uint64(goldenInit); got != want {
		t.Errorf("starting values hash to %#x, want %#x", got, want)
	}
	if slices.Equal(one, start(2)) {
		t.Error("another seed gives the same start")
	}
	limit, sum, squares := math.Sqrt(6.0/(112+64)), 0.0, 0.0
	for _, v := range one[:112*64] {
		if math.Abs(float64(v)) > limit {
			t.Fatalf("weight %v beyond the limit %v", v, limit)
		}
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	n := 112.0 * 64
	if math.Abs(sum/n) > 5*limit/math.Sqrt(3*n) || math.Abs(squares/n-limit*limit/3) > 0.05*limit*limit/3 {
		t.Errorf("mean %v, mean square %v, want 0 and %v", sum/n, squares/n, limit*limit/3)
	}
}

const goldenInit = 0x6dd61ee040972878
