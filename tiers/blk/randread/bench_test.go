package randread

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"psrt/tiers/blk"
)

// BenchmarkAgainstFio reads single blocks beside fio, in turns of the same
// minute: go test -bench AgainstFio -benchtime 1x ./tiers/blk/randread
func BenchmarkAgainstFio(b *testing.B) {
	const size = 1 << 30
	for _, c := range []struct {
		name     string
		cfg      blk.Config
		notified bool
	}{
		{"ring", blk.Config{}, false},
		{"ring notified", blk.Config{}, true},
		{"old", blk.Config{OldRing: true}, false},
		{"pread", blk.Config{Engine: blk.EnginePread}, false},
	} {
		for _, bytes := range []int{512, 4096} {
			b.Run(fmt.Sprintf("%s/%d", c.name, bytes), func(b *testing.B) {
				dir := b.TempDir()
				d, err := blk.Open(dir, c.cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				file, err := Prepare(d, "data", size)
				if err != nil {
					b.Fatal(err)
				}
				cfg := Config{Bytes: bytes, Depth: 64, Reads: 30000, Seed: 1, Notified: c.notified}
				run, err := Open(d, file, size, cfg)
				if err != nil {
					b.Fatal(err)
				}
				var ours, theirs Result
				for b.Loop() {
					for range 8 {
						f, err := Fio(b.Context(), filepath.Join(dir, "data"), cfg, 400*time.Millisecond)
						if err != nil {
							b.Fatal(err)
						}
						theirs = theirs.plus(f)
						cfg.Seed++
						run.Seed(cfg.Seed)
						o, err := run.Run()
						if err != nil {
							b.Fatal(err)
						}
						ours = ours.plus(o)
					}
				}
				b.ReportMetric(ours.PerSecond(), "reads/s")
				b.ReportMetric(ours.PerSecond()/theirs.PerSecond(), "x-fio")
				b.ReportMetric(ours.CPUMicros(), "cpu-us/read")
				b.ReportMetric(theirs.CPUMicros(), "fio-cpu-us/read")
			})
		}
	}
}

func (r Result) plus(o Result) Result {
	return Result{Reads: r.Reads + o.Reads, Elapsed: r.Elapsed + o.Elapsed, CPU: r.CPU + o.CPU, Sum: r.Sum + o.Sum}
}
