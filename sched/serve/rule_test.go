//go:build cgo

package serve

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"psrt/tiers/table"
)

// TestUsersRule runs the worked example of docs/extending.md behind a server
// beside its formula: 0.5 v + g, w - 0.25 v.
func TestUsersRule(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command("cc", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-I../../csrc/rule", "-o", filepath.Join(dir, "momentum.so"), "../../csrc/examples/momentum.c")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, b)
	}
	text := "tables:\n  - {name: w, dim: 3, rule: momentum.so, params: {rate: 0.25, momentum: %v}, init: zero}\n"
	_, err := ParseTables(filepath.Join(dir, "tables.yaml"), fmt.Appendf(nil, text, 1.5))
	says(t, err, "tables.yaml:2: table \"w\": rule: library")
	says(t, err, "want rate above 0, momentum from 0 to below 1")
	specs, err := ParseTables(filepath.Join(dir, "tables.yaml"), fmt.Appendf(nil, text, 0.5))
	if err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "model")
	s := start(t, Config{Tables: specs, Staleness: asp, Save: model})
	a, b := s.join(t), s.join(t)
	keys := []uint64{1, 2}
	a.push("w", false, keys, 1, 2)
	b.push("w", false, keys, 1, 2)
	if got := a.pull("w", keys...); !slices.Equal(got, []float32{-0.25 - 0.375, -0.5 - 0.75}) {
		t.Errorf("weights %v", got)
	}
	if rep := a.table("w", nil); rep.Spec.Optimizer.Rule != "momentum" || rep.RowBytes != 24 {
		t.Errorf("the table is %+v", rep)
	}
	before := s.digest(t)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Tables: specs, Staleness: asp, Load: model})
	if after := s.digest(t); after != before {
		t.Errorf("digest %s after loading, was %s", after, before)
	}
	_, err = New(Config{Listen: "127.0.0.1:0", Token: testToken, Lanes: 1, Clients: 1, Node: -1,
		Tables: &Tables{Specs: []table.Spec{{Name: "w", Dim: 3, Optimizer: table.Optimizer{Kind: table.User, Library: filepath.Join(dir, "momentum.so"), Params: "momentum=0.5", Rule: "other", State: 3}}}}})
	says(t, err, "has become another rule")
}
