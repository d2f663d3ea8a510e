package job

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/sched/audit"
	"psrt/sched/audit/judge"
	"psrt/sched/client"
	"psrt/sched/clock"
	"psrt/sched/dataset"
	"psrt/sched/train"
	"psrt/sched/train/model"
	"psrt/sched/usage"
	"psrt/tiers/table"
)

// recorded has a job record into a directory.
func recorded(j *train.Job, dir string, rate float64) {
	j.Audit = &audit.Config{Dir: dir, Rate: rate, Limit: audit.DefaultLimit, Run: audit.NewRun(time.Now())}
}

// kept judges all runs in a directory, each of which must have kept its promise
// with everything judged.
func kept(t *testing.T, dir string) []*judge.Run {
	t.Helper()
	rep, err := judge.Dir(t.Context(), dir, judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Runs {
		for _, v := range r.Violations {
			t.Error(v)
		}
		if !r.Consistent || r.Unjudged > 0 || r.Values == 0 || r.Pulls == 0 || r.Pushes == 0 || r.Keys == 0 {
			t.Errorf("%+v", *r)
		}
	}
	return rep.Runs
}

// Jobs of every mode, with running averages, evaluation in the middle and the best
// epoch's model brought back, keep their promise, to the last float.
func TestAuditOfJobs(t *testing.T) {
	modes := []struct{ mode, transport string }{{train.BSP, "shm"}, {train.ASP, "shm"}, {train.SSP, "tcp"}}
	if testing.Short() {
		modes = modes[:2]
	}
	for _, c := range modes {
		for _, optimizer := range []string{table.Adam, table.FTRL} {
			if optimizer == table.FTRL && (c.mode != train.BSP || testing.Short()) {
				continue
			}
			t.Run(c.mode+" "+optimizer, func(t *testing.T) {
				j := *sampleJob(t, "deepfm")
				j.Sync, j.Servers, j.Workers, j.Lanes, j.Batch, j.Epochs = c.mode, 2, 3, 2, 250, 3
				j.Valid, j.Patience = j.Test, 1
				j.Optimizer = table.Optimizer{Kind: optimizer, LR: 0.3}.WithDefaults() // so large that an earlier epoch is the best
				if c.mode == train.SSP {
					j.Staleness = 2
				}
				dir := t.TempDir()
				recorded(&j, dir, 1)
				run(t, j, c.transport)
				runs := kept(t, dir)
				if r := runs[0]; len(runs) != 1 || r.Workers != 3 || r.Lanes != 4 || len(r.Notes) > 0 {
					t.Errorf("%d runs, %+v", len(runs), *r)
				}
			})
		}
	}
}

// A run that goes on from a checkpoint is judged from the rows that it was given.
func TestAuditOfAResumedJob(t *testing.T) {
	for _, mode := range []string{train.BSP, train.ASP} {
		if testing.Short() && mode == train.ASP {
			continue
		}
		dir := t.TempDir()
		j := *sampleJob(t, "deepfm")
		j.Sync, j.Servers, j.Workers, j.Batch, j.Epochs, j.Dataset = mode, 2, 2, 250, 2, "queue"
		j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 3, Resume: true, Deltas: 3, Keep: 2}
		recorded(&j, dir, 1)
		first := run(t, j, "shm")
		j.Epochs = 4
		recorded(&j, dir, 1)
		if res := run(t, j, "shm"); res.Checkpoints.ResumedFrom == 0 || first.Checkpoints.Written == 0 {
			t.Fatalf("%s: nothing was resumed: %+v", mode, *res.Checkpoints)
		}
		if runs := kept(t, dir); len(runs) != 2 || runs[0].Steps != 24 || runs[1].Steps < 24 {
			t.Errorf("%s: %d runs", mode, len(runs))
			for _, r := range runs {
				t.Errorf("%+v", *r)
			}
		}
	}
}

// Tables with a lifecycle, also resumed and on a disk, and rows that workers keep, are
// judged to the last value.
func TestAuditOfLivesAndHotRows(t *testing.T) {
	for _, mode := range some([]string{train.BSP, train.ASP}) {
		dir := t.TempDir()
		j := *livingJob(t, "640")
		j.Sync, j.Servers, j.Workers, j.Lifecycle.Capacity = mode, 2, 2, 150
		j.Checkpoint = &train.Checkpoint{Dir: filepath.Join(t.TempDir(), "history"), Steps: 4, Resume: true, Deltas: 3, Keep: 2}
		if mode == train.BSP {
			onDisk(t, &j)
		}
		for range 2 {
			recorded(&j, dir, 1)
			if res := run(t, j, "shm"); res.Life.Shrinks == 0 || res.Life.Deleted == 0 {
				t.Fatalf("%s: nothing happened: %+v", mode, *res.Life)
			}
			j.Epochs += 2
		}
		for _, r := range kept(t, dir) {
			if len(r.Notes) > 0 {
				t.Errorf("%s: %v", mode, r.Notes)
			}
		}
	}
	j := *sampleJob(t, "fm")
	j.Sync, j.Staleness, j.Workers, j.Batch, j.Epochs, j.Hot = train.SSP, 2, 2, 64, 4, client.Hot{Rows: 200, Staleness: 3}
	dir := t.TempDir()
	recorded(&j, dir, 1)
	if res := run(t, j, "shm"); !slices.ContainsFunc(res.Ranks, func(r train.RankUsage) bool { return r.Hot != nil && r.Hot.Kept > 0 }) {
		t.Fatal("no row was kept")
	}
	if r := kept(t, dir)[0]; len(r.Notes) > 0 {
		t.Errorf("%v", r.Notes)
	}
}

// A record that has reached its limit is judged as far as it goes; the job goes on.
func TestAuditLimit(t *testing.T) {
	j := *sampleJob(t, "fm")
	j.Workers, j.Batch, j.Epochs = 2, 100, 12
	dir := t.TempDir()
	recorded(&j, dir, 1)
	j.Audit.Limit = 1 << 20
	run(t, j, "shm")
	rep, err := judge.Dir(t.Context(), dir, judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := rep.Runs[0]
	if !r.Consistent || r.Unjudged == 0 || r.Pulls == 0 || r.Values == 0 || !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "limit") }) {
		t.Errorf("%+v: %v", *r, r.Violations)
	}
}

// BenchmarkAudit trains with and without a record, in turns, and compares the
// processor time and the wall time of training, for jobs that have all kinds of records.
func BenchmarkAudit(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 10, 50_000)
	var text strings.Builder
	for range 30_000 {
		fmt.Fprintf(&text, "%d", rng.IntN(2))
		for f := range 39 {
			fmt.Fprintf(&text, " %d:%d:1", f, uint64(f)<<20+zipf.Uint64())
		}
		text.WriteByte('\n')
	}
	data := filepath.Join(b.TempDir(), "train.libffm")
	if err := os.WriteFile(data, []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	src, err := dataset.Open(b.Context(), []string{data}, dataset.Options{})
	if err != nil {
		b.Fatal(err)
	}
	adam := table.Optimizer{Kind: table.Adam, LR: 0.01}.WithDefaults()
	base := train.Job{Data: []string{data}, Reading: src.Options(), Dataset: "memory", Shuffle: true,
		Model:     model.Spec{Kind: model.FM, Dim: 16, Fields: src.Describe().Fields, Task: model.CTR, Seed: 5, MeanLabel: src.Describe().MeanLabel},
		Optimizer: adam, DenseOptimizer: adam, Batch: 2048, Epochs: 4, Seed: 5, Sync: train.BSP, Servers: 1, Workers: 2, Threads: 1, Lanes: 1, Scratch: b.TempDir()}
	for _, of := range []struct {
		name string
		make func(j *train.Job)
	}{
		{"bsp", func(*train.Job) {}},
		{"dense layers", func(j *train.Job) { j.Model.Kind, j.Model.Hidden = model.DeepFM, []int{64, 32} }},
		{"asp, hot rows", func(j *train.Job) { j.Sync, j.Hot = train.ASP, client.Hot{Rows: 2000, Staleness: 4} }},
		{"lifecycle", func(j *train.Job) {
			l := table.DefaultLifecycle()
			j.Lifecycle, j.Schedule = &l, table.DefaultSchedule()
			j.Schedule.Day = "8192"
		}},
	} {
		b.Run(of.name, func(b *testing.B) {
			j := base
			of.make(&j)
			compareAudited(b, j)
		})
	}
}

// compareAudited runs a job with and without a record, in turns.
func compareAudited(b *testing.B, base train.Job) {
	var wall, cpu [2]float64
	once := func(with int) {
		j := base
		if with == 1 {
			recorded(&j, b.TempDir(), audit.DefaultRate)
		}
		_, before := usage.Process()
		res, err := RunInProcess(context.Background(), &j, "shm", nil)
		if err != nil {
			b.Fatal(err)
		}
		_, after := usage.Process()
		wall[with] += res.TrainSeconds
		cpu[with] += after - before
	}
	once(0) // caches
	wall, cpu = [2]float64{}, [2]float64{}
	n := 0
	for b.Loop() {
		once(n % 2)
		once(1 - n%2)
		n++
	}
	b.ReportMetric(100*(wall[1]/wall[0]-1), "%wall")
	b.ReportMetric(100*(cpu[1]/cpu[0]-1), "%cpu")
}

// Tables with promises of their own are judged each by its own: one that kept a looser
// one does not keep the stricter.
func TestAuditOfTableSync(t *testing.T) {
	for _, c := range []struct {
		sync  string
		table map[string]clock.Mode
		says  string
	}{
		{train.ASP, map[string]clock.Mode{train.DenseTable: clock.Fixed(0)}, "embedding asp, dense bsp"},
		{train.BSP, map[string]clock.Mode{train.DenseTable: clock.Fixed(clock.Async)}, "embedding bsp, dense asp"},
		{train.ASP, map[string]clock.Mode{train.DenseTable: clock.Fixed(0), train.EmbeddingTable: clock.Fixed(2)}, "embedding ssp(2), dense bsp"},
		{train.ASP, map[string]clock.Mode{train.DenseTable: clock.Fixed(0), train.EmbeddingTable: clock.Fixed(0)}, "bsp"},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := *sampleJob(t, "deepfm")
			j.Sync, j.TableSync, j.Servers, j.Workers, j.Lanes, j.Batch, j.Epochs = c.sync, c.table, 2, 3, 2, 250, 3
			dir := t.TempDir()
			recorded(&j, dir, 1)
			run(t, j, "shm")
			runs := kept(t, dir)
			if r := runs[0]; len(runs) != 1 || r.Consistency != c.says || len(r.Notes) > 0 {
				t.Errorf("%d runs, %+v", len(runs), *r)
			}
			if c.says == "bsp" {
				return
			}
			strict := 0
			rep, err := judge.Dir(t.Context(), dir, judge.Options{Promise: &strict})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range rep.Runs[0].Violations {
				if m, own := c.table[v.Table]; own && m.BSP() || !own && c.sync == train.BSP {
					t.Errorf("a table in bsp did not keep it: %+v", *v)
				}
			}
			if rep.Consistent {
				t.Error("a table that is not in bsp kept it: nothing was judged")
			}
		})
	}
}
