package metric

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"psrt/csrc/seedtest"
)

// naiveAUC looks at every pair.
func naiveAUC(scores, labels []float32) float64 {
	right, all := 0.0, 0.0
	for i, p := range scores {
		for j, q := range scores {
			if labels[i] > 0.5 && labels[j] <= 0.5 {
				all++
				switch {
				case p > q:
					right++
				case p == q:
					right += 0.5
				}
			}
		}
	}
	return right / all
}

// sample draws n scores around the logit centre, and labels that follow them.
func sample(r *rand.Rand, n int, centre, width float64) (scores, labels []float32) {
	scores, labels = make([]float32, n), make([]float32, n)
	for i := range scores {
		p := 1 / (1 + math.Exp(-centre-width*r.NormFloat64()))
		scores[i] = float32(p)
		if r.Float64() < p {
			labels[i] = 1
		}
	}
	return scores, labels
}

func TestAUC(t *testing.T) {
	for _, c := range []struct {
		name           string
		scores, labels []float32
		want           float64
		ok             bool
	}{
		{"right", []float32{.1, .9}, []float32{0, 1}, 1, true},
		{"wrong", []float32{.9, .1}, []float32{0, 1}, 0, true},
		{"tie", []float32{.5, .5}, []float32{0, 1}, .5, true},
		{"mixed", []float32{.1, .4, .35, .8}, []float32{0, 0, 1, 1}, .75, true},
		{"one class", []float32{.1, .4}, []float32{1, 1}, 0, false},
		{"empty", nil, nil, 0, false},
		{"nan", []float32{.1, float32(math.NaN())}, []float32{0, 1}, 0, false},
	} {
		if got, ok := AUC(c.scores, c.labels); ok != c.ok || got != c.want {
			t.Errorf("%s: %v %v, want %v %v", c.name, got, ok, c.want, c.ok)
		}
	}
	r := seedtest.Fixed(t, 1)
	for range 20 {
		scores, labels := sample(r, 300, 0, 1)
		for i := range scores { // many ties
			scores[i] = float32(math.Round(float64(scores[i])*50) / 50)
		}
		if got, _ := AUC(scores, labels); math.Abs(got-naiveAUC(scores, labels)) > 1e-12 {
			t.Fatalf("%v, pair by pair %v", got, naiveAUC(scores, labels))
		}
	}
}

func TestBucketsFollowTheScore(t *testing.T) {
	if bucket(0) != 0 || bucket(1) != buckets-1 {
		t.Fatalf("0 is in bucket %d, 1 in %d, want 0 and %d", bucket(0), bucket(1), buckets-1)
	}
	before := 0
	for _, step := range []float32{1.0 / (1 << 22), 1.0 / 977} {
		before = 0
		for p := float32(0); p <= 1; p += step {
			b := bucket(p)
			if b < before || b >= buckets {
				t.Fatalf("score %v is in bucket %d of %d, after %d", p, b, buckets, before)
			}
			before = b
		}
	}
	for _, p := range []float32{1e-45, 1e-9, 0.5, math.Nextafter32(0.5, 0), math.Nextafter32(1, 0)} {
		if b := bucket(p); b < 0 || b >= buckets {
			t.Fatalf("score %v is in bucket %d of %d", p, b, buckets)
		}
	}
	if bucket(math.Nextafter32(0.5, 0)) >= bucket(0.5) {
		t.Fatal("the middle is not told apart from what is below it")
	}
}

// The promise of doc and Report: the bucketed AUC is within its bound of the
// exact one, and for scores of a usual shape the bound is below 1e-4.
func TestBucketedAUCIsWithinItsBound(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	for _, c := range []struct {
		name          string
		centre, width float64
		usual         bool
	}{
		{"balanced", 0, 1, true},
		{"ratings", 1.6, 1.5, true},
		{"clicks", -4, 1, true},
		{"rare clicks", -7, 1.5, true},
		{"certain", 9, 3, true},
		{"crowded", 0, 1e-4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			scores, labels := sample(r, 200000, c.centre, c.width)
			exact, ok := AUC(scores, labels)
			if !ok {
				t.Fatal("no pairs")
			}
			a := NewAccumulator(CTR)
			a.Add(scores, labels)
			got := a.Report()
			if off := math.Abs(*got.AUC - exact); off > *got.AUCErrorBound+1e-12 {
				t.Fatalf("off by %g, bound %g", off, *got.AUCErrorBound)
			}
			if c.usual && *got.AUCErrorBound > 1e-4 {
				t.Fatalf("bound %g, want at most 1e-4", *got.AUCErrorBound)
			}
			t.Logf("exact %.6f, off by %.1g, bound %.1g", exact, *got.AUC-exact, *got.AUCErrorBound)
		})
	}
}

func TestReportAgreesWithFloat64(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	scores, labels := sample(r, 50000, -1, 2)
	scores[0], labels[0], scores[1], labels[1] = 1, 0, 0, 1 // clipped
	a := NewAccumulator(CTR)
	a.Add(scores, labels)
	var loss, right, clicks, predicted, squares, distances float64
	for i, s := range scores {
		p := math.Min(math.Max(float64(s), 1e-7), 1-1e-7)
		y := float64(labels[i])
		loss -= y*math.Log(p) + (1-y)*math.Log(1-p)
		if (s > 0.5) == (y == 1) {
			right++
		}
		clicks += y
		predicted += float64(s)
		squares += (float64(s) - y) * (float64(s) - y)
		distances += math.Abs(float64(s) - y)
	}
	n, got := float64(len(scores)), a.Report()
	for name, pair := range map[string][2]float64{
		"log loss": {*got.LogLoss, loss / n}, "accuracy": {*got.Accuracy, right / n}, "COPC": {*got.COPC, clicks / predicted},
		"actual CTR": {*got.ActualCTR, clicks / n}, "predicted CTR": {*got.PredictedCTR, predicted / n},
		"RMSE": {*got.RMSE, math.Sqrt(squares / n)}, "MAE": {*got.MAE, distances / n},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-10 {
			t.Errorf("%s %v, want %v", name, pair[0], pair[1])
		}
	}
	if got.Examples != 50000 {
		t.Errorf("report %+v of a ctr task", got)
	}
}

func TestRegressionReport(t *testing.T) {
	a := NewAccumulator(Regression)
	a.Add([]float32{1, -2, 3.5}, []float32{2, -4, 3.5})
	got := a.Report()
	if math.Abs(*got.RMSE-math.Sqrt(5.0/3)) > 1e-12 || math.Abs(*got.MAE-1) > 1e-12 || got.AUC != nil || got.LogLoss != nil {
		t.Fatalf("report %+v", got)
	}
}

func TestDivergedPredictionsAreCountedApart(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, task := range []string{CTR, Regression} {
		a := NewAccumulator(task)
		a.Add([]float32{0.5, nan, inf, -inf}, []float32{1, 1, 0, 0})
		if r := a.Report(); r.Examples != 4 || r.Invalid != 3 {
			t.Errorf("%s: %d examples, %d invalid, want 4 and 3", task, r.Examples, r.Invalid)
		}
		if _, err := json.Marshal(a.Report()); err != nil {
			t.Errorf("%s: %v", task, err)
		}
	}
}

// A figure that the rows do not define is absent, never a number that looks like one.
func TestFiguresOfTooFewRows(t *testing.T) {
	nan := float32(math.NaN())
	for _, task := range []string{CTR, Regression} {
		none, invalid := NewAccumulator(task), NewAccumulator(task)
		invalid.Add([]float32{nan, nan}, []float32{1, 0})
		for _, a := range []*Accumulator{none, invalid} {
			r := a.Report()
			if got := (Report{Examples: r.Examples, Invalid: r.Invalid}); *r != got || r.Counted() != 0 {
				t.Errorf("%s: no valid row has the figures %+v", task, r)
			}
		}
	}
	a := NewAccumulator(CTR)
	a.Add([]float32{.3, .4}, []float32{1, 1})
	r := a.Report()
	if r.AUC != nil || r.AUCErrorBound != nil || r.LogLoss == nil || !r.OneClass() || r.ConstantLogLoss != nil {
		t.Errorf("rows of one class have the figures %+v", r)
	}
	a.Add([]float32{.2}, []float32{0})
	if r := a.Report(); r.AUC == nil || *r.AUC != 1 || r.OneClass() {
		t.Errorf("rows of both classes have the figures %+v", r)
	}
}

// Hopeless compares with a constant, and leaves room for chance.
func TestHopeless(t *testing.T) {
	labels := make([]float32, 1000)
	add := func(task string, pred float32, label func(i int) float32) *Report {
		a := NewAccumulator(task)
		for i := range labels {
			a.Add([]float32{pred}, []float32{label(i)})
		}
		return a.Report()
	}
	third := func(i int) float32 { return float32(min(1, i%3) ^ 1) }
	steps := func(i int) float32 { return float32(i%2) * 10 }
	for _, c := range []struct {
		task     string
		pred     float32
		label    func(int) float32
		yes      bool
		constant float64
	}{
		{CTR, .33, third, false, .6365}, {CTR, .999, third, true, .6365}, {CTR, .9, func(int) float32 { return 0 }, false, 0},
		{Regression, 5, steps, false, 5}, {Regression, 50, steps, true, 5}, {Regression, 50, func(int) float32 { return 3 }, false, 0},
	} {
		r := add(c.task, c.pred, c.label)
		figure, model, constant, yes := r.Hopeless()
		if yes != c.yes || yes && (math.Abs(constant-c.constant) > .01 || model <= constant || figure == "") {
			t.Errorf("%s, always %v: %s %v, a constant's %v, hopeless %v", c.task, c.pred, figure, model, constant, yes)
		}
	}
	if r := add(Regression, 5, func(i int) float32 { return 1e7 * float32(i%2) }); r.ConstantRMSE != nil {
		t.Errorf("squares of labels that do not fit give a deviation of %v", *r.ConstantRMSE)
	}
}

// Counts of the version before have no squares of labels.
func TestReadsCountsOfVersion1(t *testing.T) {
	a := NewAccumulator(Regression)
	a.Add([]float32{1, 2}, []float32{2, 4})
	text, _ := a.MarshalBinary()
	text = text[:len(text)-17] // 16 bytes and a varint
	text[0] = 1
	var b Accumulator
	if err := b.UnmarshalBinary(text); err != nil {
		t.Fatal(err)
	}
	if r := b.Report(); *r.RMSE != *a.Report().RMSE || r.ConstantRMSE != nil {
		t.Errorf("%+v", r)
	}
}

// Merged equals single to the bit, however the stream is cut and carried.
func TestMergeInAnyOrderIsTheSame(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	for _, task := range []string{CTR, Regression} {
		scores, labels := sample(r, 20000, 1, 2)
		single := NewAccumulator(task)
		single.Add(scores, labels)
		want, _ := single.MarshalBinary()
		for range 5 {
			parts := make([]*Accumulator, 4)
			for i := range parts {
				parts[i] = NewAccumulator(task)
			}
			for i := range scores {
				parts[r.IntN(4)].Add(scores[i:i+1], labels[i:i+1])
			}
			total := NewAccumulator(task)
			for _, i := range r.Perm(4) {
				text, err := json.Marshal(parts[i])
				if err != nil {
					t.Fatal(err)
				}
				carried := new(Accumulator)
				if err := json.Unmarshal(text, carried); err != nil {
					t.Fatal(err)
				}
				if err := total.Merge(carried); err != nil {
					t.Fatal(err)
				}
			}
			if got, _ := total.MarshalBinary(); !bytes.Equal(got, want) {
				t.Fatalf("%s: merged counts differ", task)
			}
			if !reflect.DeepEqual(total.Report(), single.Report()) {
				t.Fatalf("%s: merged report %+v, single %+v", task, total.Report(), single.Report())
			}
		}
	}
	if NewAccumulator(CTR).Merge(NewAccumulator(Regression)) == nil {
		t.Fatal("counts of different tasks were merged")
	}
}

func TestFixedAgreesWithBigFloat(t *testing.T) {
	r := seedtest.Fixed(t, 1)
	var f fixed
	want := new(big.Float).SetPrec(400)
	for range 10000 {
		v := r.NormFloat64() * math.Exp2(float64(r.IntN(80)-45))
		if !f.add(v) {
			t.Fatalf("%g refused", v)
		}
		want.Add(want, big.NewFloat(v))
	}
	exact, _ := want.Float64()
	if got := f.value(); math.Abs(got-exact) > 1e-14*math.Abs(exact)+1e-15 {
		t.Fatalf("sum %v, want %v", got, exact)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e13} {
		if before := f; f.add(v) || f != before {
			t.Errorf("%v was added", v)
		}
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	scores, labels := sample(seedtest.Fixed(t, 1), 512, 1, 2)
	a := NewAccumulator(CTR)
	a.Add(scores, labels)
	if n := testing.AllocsPerRun(20, func() { a.Add(scores, labels) }); n != 0 {
		t.Fatalf("%v allocations a leaf", n)
	}
}

func FuzzUnmarshal(f *testing.F) {
	a := NewAccumulator(CTR)
	a.Add([]float32{.1, .2, .9}, []float32{0, 1, 1})
	good, _ := a.MarshalBinary()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		a := NewAccumulator(CTR)
		if err := a.UnmarshalBinary(data); err != nil {
			return
		}
		a.Report()
		again, _ := a.MarshalBinary()
		b := new(Accumulator)
		if err := b.UnmarshalBinary(again); err != nil {
			t.Fatalf("decoded counts encode to what does not decode: %v", err)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	scores, labels := sample(seedtest.Fixed(b, 1), 512, 1, 2)
	a := NewAccumulator(CTR)
	for b.Loop() {
		a.Add(scores, labels)
	}
	b.ReportMetric(512*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mex/s")
}
