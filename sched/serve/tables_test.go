package serve

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/sched/psmsg"
	"psrt/tiers/table"
)

const goodFile = `seed: 7
tables:
  - {name: w, dim: 1, rule: ftrl, lr: 0.1, l1: 1.5, init: zero}
  - name: v
    dim: 8
    dtype: float32
    rule: adagrad
    init: {kind: normal, scale: 0.02, zero_prefix: 1}
  - name: hits
    dim: 2
    rule: sum
    id: 9
dense:
  rule: adam
  lr: 0.01
  parts:
    - {name: bias, size: 1}
    - {name: layer, size: 3000, init: {kind: uniform, scale: 0.5}}
`

func TestReadTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tables.yaml")
	if err := os.WriteFile(path, []byte(goodFile), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := ReadTables(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []table.Spec{
		{Name: "w", ID: psmsg.TableID("w"), Dim: 1, Init: table.Init{Kind: "zero"}, Optimizer: table.Optimizer{Kind: table.FTRL, LR: 0.1, L1: 1.5}},
		{Name: "v", ID: psmsg.TableID("v"), Dim: 8, Init: table.Init{Kind: "normal", Scale: 0.02, ZeroPrefix: 1}, Optimizer: table.Optimizer{Kind: table.AdaGrad}},
		{Name: "hits", ID: 9, Dim: 2, Optimizer: table.Optimizer{Kind: table.Sum}},
	}
	if got.Seed != 7 || !slices.Equal(got.Specs, want) {
		t.Errorf("seed %d, tables\n%+v, want\n%+v", got.Seed, got.Specs, want)
	}
	parts := []psmsg.DensePart{{Name: "bias", First: 0, Len: 1}, {Name: "layer", First: 1, Len: 3000}}
	d := got.Dense
	if d.Floats != 3001 || len(d.Init) != 3001 || !slices.Equal(d.Parts, parts) || d.Optimizer.Kind != table.Adam || d.Init[0] != 0 {
		t.Errorf("dense %d floats, parts %+v, optimizer %+v, bias %v", d.Floats, d.Parts, d.Optimizer, d.Init[0])
	}
	distinct := slices.Clone(d.Init[1:])
	slices.Sort(distinct)
	if n := len(slices.Compact(distinct)); n < 2900 || distinct[0] < -0.5 || distinct[2999] >= 0.5 {
		t.Errorf("the layer has %d distinct values", n)
	}
	again, err := ParseTables(path, []byte(strings.Replace(goodFile, "{name: bias, size: 1}", "{name: bias, size: 5}", 1)))
	if err != nil || !slices.Equal(again.Dense.Init[5:], d.Init[1:]) {
		t.Errorf("a part's values depend on the parts before it (%v)", err)
	}
}

// TestTablesErrors: each message has the line, the value and what to do.
func TestTablesErrors(t *testing.T) {
	one := func(s string) string { return "tables:\n  - " + s + "\n" }
	for _, c := range []struct{ text, want string }{
		{"", "is empty, want `tables:`"},
		{"tables: [", "is not YAML"},
		{"- a", "line"},
		{"tables: []", "neither a table nor a dense vector"},
		{"tabels: []", `f:1: the file has no key "tabels"; known are seed, tables, dense`},
		{"tables: {a: 1}", "f:1: tables is a mapping, want a list"},
		{one("name"), `f:2: a table is "name", want lines`},
		{one("{dim: 1, rule: sgd}"), "f:2: a table without a name; add `name:`"},
		{one("{name: w, rule: sgd}"), `f:2: table "w" without a dim`},
		{one("{name: w, dim: 1}"), `f:2: table "w" without a rule; add`},
		{one("{name: w, dim: 0, rule: sgd}"), `f:2: dim is "0", want a whole number from 1 to 4096`},
		{one("{name: w, dim: 1_0, rule: sgd}"), `f:2: dim is "1_0", want a whole number from 1 to 4096`},
		{one("{name: w, dim: 0x10, rule: sgd}"), `f:2: dim is "0x10", want a whole number from 1 to 4096`},
		{one("{name: w, dim: 5000, rule: sgd}"), `dim is "5000"`},
		{one("{name: w, dim: -1, rule: sgd}"), `dim is "-1"`},
		{one("{name: w, dim: 1.5, rule: sgd}"), `dim is "1.5"`},
		{one("{name: w, dim: [1], rule: sgd}"), `dim is a list`},
		{one("{name: w, dimm: 1, rule: sgd}"), `no key "dimm"; known are name, dim, dtype`},
		{one("{name: w, dim: 1, dim: 2, rule: sgd}"), "dim is there twice, first in line 2"},
		{one("{name: w, dim: 1, dtype: float16, rule: sgd}"), `dtype is "float16", rows are float32`},
		{one("{name: w, dim: 1, rule: adamw}"), `table "w" has the rule "adamw", want one of sgd, adagrad`},
		{one("{name: w, dim: 1, rule: sgd, lr: fast}"), `f:2: lr is "fast", want a number such as 0.05`},
		{one("{name: w, dim: 1, rule: sgd, lr: .nan}"), `lr is ".nan"`},
		{one("{name: w, dim: 1, rule: sgd, lr: -1}"), `lr is "-1"`},
		{one("{name: w, dim: 1, rule: sgd, l1: 1}"), "only ftrl has an l1 term"},
		{one("{name: w, dim: 1, rule: sum, lr: 1}"), "sum takes no lr"},
		{one("{name: w, dim: 1, rule: sgd, params: {a: 1}}"), "for user only"},
		{one("{name: w, dim: 1, rule: sgd, params: 1}"), `params is "1", want`},
		{one("{name: w, dim: 1, rule: sgd, init: xavier}"), `"xavier"`},
		{one("{name: w, dim: 1, rule: sgd, init: {zero_prefix: 2}}"), "zero_prefix 2, must be 0 to dim (1)"},
		{one("{name: w, dim: 1, rule: none.so}"), "none.so"},
		{one("{name: w, dim: 1, rule: none.so, lr: 1}"), "put them into params"},
		{one("{name: w, dim: 1, rule: sgd}\n  - {name: w, dim: 1, rule: sgd}"), `f:3: table "w" is described in line 2 already`},
		{one("{name: w, dim: 1, rule: sgd, id: 3}\n  - {name: v, dim: 1, rule: sgd, id: 3}"), `f:3: tables "w" and "v" have the number 3 both`},
		{"dense: {rule: sgd}", "f:1: dense without parts"},
		{"dense: {parts: []}", "f:1: dense without a rule"},
		{"dense: {rule: none.so, parts: []}", `kind "none.so"`},
		{"dense: {rule: user, parts: []}", "without a library"},
		{"dense: {rule: sgd, parts: [{size: 1}]}", "a part without a name"},
		{"dense: {rule: sgd, parts: [{name: a}]}", `part "a" without a size`},
		{"dense: {rule: sgd, parts: [{name: a, size: 1}, {name: a, size: 1}]}", `two parts are named "a"`},
	} {
		_, err := ParseTables("f", []byte(c.text))
		var in *InputError
		if !errors.As(err, &in) || !in.BadInput() || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "f:") {
			t.Errorf("%q: error %v, want one that says %q", c.text, err, c.want)
		}
	}
	if _, err := ReadTables(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "cannot be read: no such file") {
		t.Errorf("a missing file gives %v", err)
	}
}

func FuzzParseTables(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte("tables:\n  - {name: w, dim: 1, rule: sum}\n"))
	f.Add([]byte("tables: &a [*a]"))
	f.Add([]byte("dense: {rule: sgd, parts: [{name: a, size: 5}]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if strings.Contains(string(b), ".so") {
			return // would load a library
		}
		got, err := ParseTables("f", b)
		if err != nil {
			return
		}
		for _, s := range got.Specs {
			if err := s.Validate(); err != nil {
				t.Fatalf("accepted %+v: %v", s, err)
			}
		}
		if len(got.Dense.Init) != got.Dense.Floats {
			t.Fatalf("%d floats, %d values", got.Dense.Floats, len(got.Dense.Init))
		}
	})
}
