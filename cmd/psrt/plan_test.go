package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/plan"
)

// The description in docs/planning.md is good, and what it says is too.
func TestPlanOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/planning.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	description, _, ok := strings.Cut(rest, "```")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(description), 0o600); err != nil || !ok {
		t.Fatal(err, ok)
	}
	o := psrt(t, "plan", file)
	if o.code != 0 || !strings.Contains(o.stdout, "limited by") || !strings.Contains(o.stdout, "trainers") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	o = psrt(t, "plan", file, "--json")
	var p plan.Prediction
	if err := json.Unmarshal([]byte(o.stdout), &p); err != nil || o.code != 0 || p.ExamplesPerS <= 0 {
		t.Errorf("exit %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	for want, args := range map[string][]string{
		"takes a description": {"plan"}, "no such file": {"plan", file + "x"}, "at least 10000": {"plan", "--measure", "--rows", "5"}, "field hots not found": {"plan", badPlan(t)},
	} {
		if o := psrt(t, args...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: exit %d, want 2 and %q\n%s", args, o.code, want, o.stderr)
		}
	}
}

func badPlan(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("hots: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Costs are measured by real jobs, and a description with them is a good one.
func TestPlanMeasures(t *testing.T) {
	o := psrt(t, "plan", "--measure", "--rows", "40000")
	if o.code != 0 {
		t.Fatalf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	c, err := plan.Parse([]byte("hosts: [{count: 1, cores: 2, workers: 1, servers: 1}]\n" + o.stdout))
	if err != nil {
		t.Fatalf("%v\n%s", err, o.stdout)
	}
	if c.Costs == plan.Measured() || c.Costs.SocketByte != plan.Measured().SocketByte || plan.Predict(c).StepSeconds <= 0 {
		t.Errorf("%+v", c.Costs)
	}
}
