package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"psrt/bench/calibrate"
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
		"takes a description": {"plan"}, "no such file": {"plan", file + "x"}, "at least 10000": {"plan", "--measure", "--rows", "5"}, `line 1: key "hots" is unknown, did you mean "hosts"?`: {"plan", badPlan(t)},
	} {
		if o := psrt(t, args...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: exit %d, want 2 and %q\n%s", args, o.code, want, o.stderr)
		}
	}
}

// What a run has moved is what was predicted of it; how long it took depends on the machine
// and is shown. Another job's run, and what is no run, are refused.
func TestPlanAgainstARun(t *testing.T) {
	dir := t.TempDir()
	data, run, cluster := filepath.Join(dir, "d.libffm"), filepath.Join(dir, "run.json"), filepath.Join(dir, "c.yaml")
	if o := psrt(t, "gen", "zipf", "--rows", "20000", "--fields", "10", "--vocab", "50000", "--zipf", "1.1", "--seed", "3", "--out", data); o.code != 0 {
		t.Fatalf("exit %d\n%s", o.code, o.stderr)
	}
	if o := psrt(t, "train", "--data", data, "--model", "fm", "--dim", "8", "--batch", "2000", "--sync", "asp", "--workers", "2", "--threads", "2", "--transport", "shm", "--quiet", "--json", run); o.code != 0 {
		t.Fatalf("exit %d\n%s", o.code, o.stderr)
	}
	describe := func(batch string) {
		t.Helper()
		text := "hosts: [{count: 1, cores: 4, workers: 2, threads: 2, servers: 1}]\nmodel: {kind: fm, fields: 10, dim: 8, rows: 50000, zipf: 1.1}\njob: {batch: " + batch + ", sync: asp, transport: shm}\n"
		if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	describe("2000")
	o := psrt(t, "plan", cluster, "--against", run, "--json")
	var got struct{ Compared []calibrate.Compared }
	if err := json.Unmarshal([]byte(o.stdout), &got); err != nil || o.code != 0 || len(got.Compared) != 6 {
		t.Fatalf("exit %d, %v\n%s%s", o.code, err, o.stdout, o.stderr)
	}
	for _, x := range got.Compared {
		if moved := strings.Contains(x.What, "worker's step"); x.Measured <= 0 || x.Ratio <= 0 || moved && (x.Ratio < .85 || x.Ratio > 1.15) {
			t.Errorf("%+v: want within 15 %% of what was predicted", x)
		}
	}
	if o := psrt(t, "plan", cluster, "--against", run); o.code != 0 || !strings.Contains(o.stdout, "core-seconds of a step") {
		t.Errorf("exit %d\n%s%s", o.code, o.stdout, o.stderr)
	}
	for want, args := range map[string][]string{
		"needs the description": {"plan", "--measure", "--against", run}, "no such file": {"plan", cluster, "--against", run + "x"}, "not what psrt train --json writes": {"plan", cluster, "--against", cluster},
	} {
		if o := psrt(t, args...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%v: exit %d, want 2 and %q\n%s", args, o.code, want, o.stderr)
		}
	}
	describe("4000")
	if o := psrt(t, "plan", cluster, "--against", run); o.code != 2 || !strings.Contains(o.stderr, "job.batch of 4000") {
		t.Errorf("exit %d\n%s", o.code, o.stderr)
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
	o := psrt(t, "plan", "--measure", "--rows", "10000")
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
