package table

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func living(change func(l *Lifecycle)) Spec {
	l := DefaultLifecycle()
	if change != nil {
		change(&l)
	}
	s := good()
	s.Lifecycle = &l
	return s
}

func TestLifecycleFromYAML(t *testing.T) {
	type given struct {
		Lifecycle *Lifecycle `yaml:"lifecycle" json:"lifecycle"`
	}
	for text, want := range map[string]func(l *Lifecycle){
		"lifecycle: {}": func(*Lifecycle) {},
		"lifecycle: {embedx_threshold: 0, delete_threshold: 0}":                func(l *Lifecycle) { l.EmbedxThreshold, l.DeleteThreshold = 0, 0 },
		"lifecycle: {capacity: 1e6, admit: count, admit_count: 3}":             func(l *Lifecycle) { l.Capacity, l.Admit, l.AdmitCount = 1e6, AdmitCount, 3 },
		"lifecycle: {create_value_when_push: false, show_scale: false}":        func(l *Lifecycle) { l.CreateValueWhenPush, l.ShowScale = false, false },
		"lifecycle: {embedx: {rule: shared_adam, weight_bounds: [-0.5, 0.5]}}": func(l *Lifecycle) { l.Embedx = PartRule{Rule: PartSharedAdam, WeightBounds: Bounds{-0.5, 0.5}} },
	} {
		var g given
		if err := yaml.Unmarshal([]byte(text), &g); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if w := living(want); *g.Lifecycle != *w.Lifecycle {
			t.Errorf("%s: %+v, want %+v", text, *g.Lifecycle, *w.Lifecycle)
		}
		b, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var again given
		if err := json.Unmarshal(b, &again); err != nil || *again.Lifecycle != *g.Lifecycle {
			t.Errorf("%s: through JSON %+v, %v", text, again.Lifecycle, err)
		}
	}
	var none given
	if err := yaml.Unmarshal([]byte("lifecycle:"), &none); err != nil || none.Lifecycle != nil {
		t.Errorf("nothing given: %+v, %v", none.Lifecycle, err)
	}
	for text, want := range map[string]string{
		"lifecycle: {embedx_treshold: 1}":             `"embedx_treshold"`,
		"lifecycle: {embed: {lr: 1}}":                 `"lr"`,
		"lifecycle: {embed: {weight_bounds: [1]}}":    "1 numbers, want 2",
		"lifecycle: {delta_keep_days: 1.5}":           "1.5",
		"lifecycle: {capacity: -1}":                   "-1",
		"lifecycle: {nonclk_coeff: .nan}":             "NaN",
		"lifecycle: [1]":                              "lifecycle",
		"lifecycle: {embed: {weight_bounds: [1, b]}}": "string",
	} {
		if err := yaml.Unmarshal([]byte(text), &given{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %s", text, err, want)
		}
	}
}

func TestParseLifecycle(t *testing.T) {
	for text, want := range map[string]func(l *Lifecycle){
		"": func(*Lifecycle) {}, "# nothing\n": func(*Lifecycle) {}, "null": func(*Lifecycle) {}, "{}": func(*Lifecycle) {},
		"embedx_threshold: 3\n":           func(l *Lifecycle) { l.EmbedxThreshold = 3 },
		`{"embedx_threshold": 3}`:         func(l *Lifecycle) { l.EmbedxThreshold = 3 },
		"---\nshow_click_decay_rate: 1\n": func(l *Lifecycle) { l.ShowClickDecayRate = 1 },
	} {
		got, err := ParseLifecycle([]byte(text))
		if w := living(want); err != nil || *got != *w.Lifecycle {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"lifecycle: {}":               `"lifecycle"`,
		"a: 1\n":                      `"a"`,
		"{}\n---\n{}\n":               "more than one",
		"show_click_decay_rate: 0":    "show_click_decay_rate 0",
		"[":                           "YAML",
		strings.Repeat("#", 64<<10+1): "65537 bytes",
	} {
		if _, err := ParseLifecycle([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: error %v, want one that says %s", text, err, want)
		}
	}
}

func TestLifecycleValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(l *Lifecycle)
		want string
	}{
		{"defaults", func(*Lifecycle) {}, ""},
		{"zero value", func(l *Lifecycle) { *l = Lifecycle{} }, "begin with DefaultLifecycle"},
		{"decay", func(l *Lifecycle) { l.ShowClickDecayRate = 1.01 }, "1.01"},
		{"threshold", func(l *Lifecycle) { l.EmbedxThreshold = math.NaN() }, "embedx_threshold NaN"},
		{"days", func(l *Lifecycle) { l.DeltaKeepDays = -1 }, "delta_keep_days -1"},
		{"admit", func(l *Lifecycle) { l.Admit = "never" }, `"never"`},
		{"no word", func(l *Lifecycle) { l.Admit = "" }, ""},
		{"probability", func(l *Lifecycle) { l.Admit, l.AdmitProbability = AdmitProbability, 0 }, "admit_probability 0"},
		{"rule", func(l *Lifecycle) { l.Embedx.Rule = "lamb" }, `embedx: rule "lamb"`},
		{"rate of the optimizer", func(l *Lifecycle) { l.Embed.LearningRate = 0.1 }, ""},
		{"range of the optimizer", func(l *Lifecycle) { l.Embed.InitialRange = 0.1 }, "embed: initial_range 0.1"},
		{"not its own", func(l *Lifecycle) { l.Embed = PartRule{Rule: PartNaive, InitialG2Sum: 3} }, "initial_g2sum 3"},
		{"beta", func(l *Lifecycle) { l.Embed = PartRule{Rule: PartAdam, Beta1DecayRate: 1} }, "below 1"},
		{"bounds", func(l *Lifecycle) { l.Embedx.WeightBounds = Bounds{1, -1} }, "weight_bounds [1 -1]"},
		{"bounds one", func(l *Lifecycle) { l.Embedx.WeightBounds = Bounds{0, 1} }, ""},
		{"rate", func(l *Lifecycle) { l.Embedx = PartRule{Rule: PartNaive, LearningRate: -1} }, "learning_rate -1"},
	} {
		err := living(c.edit).Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.want)
		}
	}
	s := living(nil)
	s.Optimizer = Optimizer{Kind: User, Library: "./x.so"}
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "no parts") {
		t.Errorf("a user's rule: %v", err)
	}
}

// TestLifecycleRow pins the layout: it is a format.
func TestLifecycleRow(t *testing.T) {
	for _, c := range []struct {
		dim        int
		opt, embed string
		embedx     string
		want       int // weights and state
	}{
		{1, AdaGrad, "", "", 2}, {8, AdaGrad, "", "", 16}, {8, RowAdaGrad, "", "", 10}, {8, Adam, "", "", 8 + 4 + 16},
		{8, SGD, PartAdaGrad, PartStdAdaGrad, 8 + 1 + 7}, {8, FTRL, "", PartSharedAdam, 8 + 2 + 4}, {1, SGD, PartAdam, PartAdam, 1 + 4},
		{8, SGD, PartNaive, PartAdam, 8 + 16},
	} {
		s := living(func(l *Lifecycle) { l.Embed.Rule, l.Embedx.Rule = c.embed, c.embedx })
		s.Dim, s.Optimizer.Kind = c.dim, c.opt
		if s.LifeAt() != c.want || s.RowFloats() != c.want+LifeFloats || s.PushFloats() != 3+c.dim {
			t.Errorf("%+v: words at %d, %d floats, pushes of %d", c, s.LifeAt(), s.RowFloats(), s.PushFloats())
		}
	}
	none := good()
	if none.PushFloats() != none.Dim || none.RowFloats() != 16 || !none.CreatesOnPull() || living(nil).CreatesOnPull() {
		t.Error("a table without a lifecycle has changed")
	}
}

func TestSpecEqual(t *testing.T) {
	a, b, none := living(nil), living(nil), good()
	other := living(func(l *Lifecycle) { l.Capacity = 1 })
	renamed := living(nil)
	renamed.Name = "f"
	if !a.Equal(b) || !none.Equal(good()) || a.Equal(none) || none.Equal(a) || a.Equal(other) || a.Equal(renamed) {
		t.Error("Equal does not compare what tables mean")
	}
	if a.Lifecycle == nil {
		t.Error("Equal changed what it compared")
	}
}

func TestSameRows(t *testing.T) {
	a := living(nil)
	for name, c := range map[string]struct {
		edit func(s *Spec)
		want bool
	}{
		"thresholds":   {func(s *Spec) { s.Lifecycle.EmbedxThreshold, s.Lifecycle.Embed.LearningRate = 1, 1 }, true},
		"rate":         {func(s *Spec) { s.Optimizer.LR = 1 }, true},
		"dim":          {func(s *Spec) { s.Dim++ }, false},
		"optimizer":    {func(s *Spec) { s.Optimizer.Kind = FTRL }, false},
		"rule":         {func(s *Spec) { s.Lifecycle.Embed.Rule = PartAdaGrad }, false}, // as long, and another sum
		"no lifecycle": {func(s *Spec) { s.Lifecycle = nil }, false},
	} {
		b := living(nil)
		c.edit(&b)
		if a.SameRows(b) != c.want || b.SameRows(a) != c.want {
			t.Errorf("%s: want %v", name, c.want)
		}
	}
}

// TestEffective: every field that counts is told, with the value that holds.
func TestEffective(t *testing.T) {
	got := living(func(l *Lifecycle) { l.Embedx.Rule = PartAdam }).Effective()
	want := "nonclk_coeff=0.1 click_coeff=1 base_threshold=1.5 delta_threshold=0.25 delta_keep_days=16 show_click_decay_rate=0.98 " +
		"delete_threshold=0.8 delete_after_unseen_days=30 capacity=0 ssd_unseenday_threshold=1 create_value_when_push=true admit=all " +
		"embedx_threshold=10 show_scale=true embed.rule=adagrad embed.learning_rate=0.05 embedx.rule=adam embedx.learning_rate=0.001 " +
		"embedx.initial_range=0.0001 embedx.weight_bounds=[-10 10] embedx.beta1_decay_rate=0.9 embedx.beta2_decay_rate=0.999 embedx.ada_epsilon=1e-08"
	if got != want {
		t.Errorf("effective:\n%s\nwant:\n%s", got, want)
	}
	if got := good().Effective(); got != "no lifecycle" {
		t.Errorf("without one: %q", got)
	}
	for _, word := range []string{"admit=count", "admit_count=2"} {
		if got := living(func(l *Lifecycle) { l.Admit = AdmitCount }).Effective(); !strings.Contains(got, word) || strings.Contains(got, "admit_score") {
			t.Errorf("%q, want %s and no other gate", got, word)
		}
	}
}

// FuzzLifecycle: what is read and valid can be written, read and be the same.
func FuzzLifecycle(f *testing.F) {
	for _, seed := range []string{"{}", "embedx_threshold: 0", "embed: {rule: adagrad, weight_bounds: [-1, 1]}", "capacity: 18446744073709551615",
		"admit: probability\nadmit_probability: 0.5", "nonclk_coeff: .inf", "{a: {b: [1, {c: d}]}}", "1: 2", "embed: null", "? [a]\n: b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLifecycle([]byte(text))
		if err != nil {
			return
		}
		s := good()
		s.Lifecycle = l
		if err := s.Validate(); err != nil {
			t.Fatalf("read, and not valid: %v", err)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again Spec
		if err := json.Unmarshal(b, &again); err != nil || !again.Equal(s) {
			t.Fatalf("%s became %+v: %v", b, again, err)
		}
		if n := s.RowFloats(); n < s.Dim+LifeFloats || n > 4*s.Dim+8+LifeFloats {
			t.Fatal(fmt.Sprint(n, " floats a row: ", s.Effective()))
		}
	})
}
