package train

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/dataset"
)

// sharder is a worker as far as it reads.
func sharder(t *testing.T, c coord.Coordinator, job *Job, index, generation int) (*worker, *dataset.Reader) {
	t.Helper()
	w := &worker{job: job, rank: &Rank{Index: index, Generation: generation, Coord: c}}
	var err error
	if w.share, err = job.share(index); err != nil {
		t.Fatal(err)
	}
	r, err := w.openSharded(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return w, r
}

// numbered writes n rows, each with an id of its own, over some files.
func numbered(t *testing.T, r *rand.Rand, n, files int) string {
	t.Helper()
	dir := t.TempDir()
	cuts := []int{0, n}
	for range files - 1 {
		cuts = append(cuts, r.IntN(n+1))
	}
	slices.Sort(cuts)
	for f := range files {
		var text strings.Builder
		for i := cuts[f]; i < cuts[f+1]; i++ {
			fmt.Fprintf(&text, "%d 0:%d:1\n", i%2, i)
		}
		if text.Len() == 0 {
			continue // no file is without rows
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part-%03d", f)), []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestShardsOnce: whatever the number of workers and files, how fast each worker is, and
// although processes die and others read again what was theirs, every row comes once in
// every pass; and a worker that is asked less often has fewer.
func TestShardsOnce(t *testing.T) {
	r := seedtest.Rand(t)
	for round := range 12 {
		n, files, workers := 3000+r.IntN(3000), 1+r.IntN(5), 2+r.IntN(7)
		if round == 0 {
			files, workers = 1, 8
		}
		job := &Job{Data: []string{numbered(t, r, n, files)}, Reading: dataset.Options{Format: dataset.LibFFM, Fields: 1, Task: dataset.CTR},
			Batch: 16 * workers, Workers: workers, Threads: 1, Sync: ASP, Dataset: dataset.Queue, Sharding: ShardDynamic}
		if _, shares, err := job.shares(job.Workers); err != nil || len(shares) != workers {
			continue // more workers than leaves
		}
		c := local.New()
		all := make([]*dataset.Reader, workers)
		ws := make([]*worker, workers)
		for i := range all {
			ws[i], all[i] = sharder(t, c, job, i, 1)
		}
		slow := r.IntN(workers)
		for pass := range 2 {
			rows := make([][]uint64, workers) // of this pass, by worker
			steps := make([]int, workers)
			over := make([]bool, workers)
			for i, rd := range all {
				if err := rd.Epoch(pass); err != nil {
					t.Fatal(err)
				}
				if _, known := rd.Start(pass); !known {
					t.Fatalf("worker %d does not know where pass %d begins", i, pass)
				}
			}
			for left := workers; left > 0; {
				i := r.IntN(workers)
				if over[i] || i == slow && r.IntN(20) > 0 {
					continue
				}
				if r.IntN(60) == 0 { // another process takes its place
					all[i].Close()
					ws[i], all[i] = sharder(t, c, job, i, 2)
					if err := all[i].Seek(pass, dataset.Cursor{}); err != nil {
						t.Fatal(err)
					}
					for range steps[i] {
						if _, err := all[i].Next(); err != nil {
							t.Fatal(err)
						}
					}
				}
				step, err := all[i].Next()
				if err == io.EOF {
					over[i] = true
					left--
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				steps[i]++
				for l := range step.Leaves {
					rows[i] = append(rows[i], step.Leaves[l].Keys...)
				}
				step.Release()
			}
			got := slices.Sorted(slices.Values(slices.Concat(rows...)))
			if len(got) != n || len(slices.Compact(got)) != n {
				t.Fatalf("pass %d of %d rows in %d files: %d workers read %d, of them %d different", pass, n, files, workers, len(got), len(slices.Compact(got)))
			}
			if fair := n / workers; round == 0 && len(rows[slow]) >= fair {
				t.Errorf("worker %d is asked one time in twenty, and has %d rows, where the mean is %d", slow, len(rows[slow]), fair)
			}
		}
	}
}

// A step is to count as its part of the global batch.
func TestShardsScale(t *testing.T) {
	job := &Job{Batch: 64, Workers: 2, Sharding: ShardDynamic}
	w := &worker{job: job, rank: &Rank{Index: 1}}
	var err error
	if w.share, err = job.share(1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows, first, want, place int
	}{{32, 0, 64, 0}, {32, 96, 64, 192}, {1, 32, 2, 64}, {15, 0, 30, 0}} {
		from := w.inGlobal(func() (*dataset.Step, error) { return &dataset.Step{Rows: c.rows, FirstRow: uint64(c.first)}, nil })
		if step, _ := from(); step.Rows != c.want || step.FirstRow != uint64(c.place) {
			t.Errorf("%d rows at %d: %d at %d, want %d at %d", c.rows, c.first, step.Rows, step.FirstRow, c.want, c.place)
		}
	}
}

func TestShardingRefused(t *testing.T) {
	good := Job{Sharding: ShardDynamic, Sync: ASP, Dataset: dataset.Queue}
	if err := good.validateSharding(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Job){
		"bsp":        func(j *Job) { j.Sync = BSP },
		"memory":     func(j *Job) { j.Dataset = dataset.Memory },
		"shuffled":   func(j *Job) { j.Shuffle = true },
		"stream":     func(j *Job) { j.Stream = &Stream{} },
		"collective": func(j *Job) { j.Dense = DenseAllReduce },
		"checkpoint": func(j *Job) { j.Checkpoint = &Checkpoint{} },
		"unknown":    func(j *Job) { j.Sharding = "fair" },
	} {
		j := good
		if spoil(&j); j.validateSharding() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
