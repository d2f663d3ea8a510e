package ahead

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"psrt/bench/belady"
	"psrt/bench/report"
	"psrt/sched/server"
	"psrt/sched/train"
	"psrt/tiers/policy"
	"psrt/tiers/table"
)

// The recorded job: its data are a part of the large one's, and its vocabulary too.
const (
	traceSteps = 300
	traceRow   = 8 // floats: what a row has in it changes nothing
)

// traceBatch is the recorded job's batch: the simulators are slow.
func (c *Config) traceBatch() int { return max(1, c.Batch/16) }

// recorded trains on a part of the data and gives what the lane looked up.
func recorded(ctx context.Context, c *Config) (belady.Trace, error) {
	examples := min(c.Examples, int64(traceSteps*c.traceBatch()))
	src, err := generate(ctx, c, "trace", examples, max(1000, uint64(float64(c.Vocab)*float64(examples)/float64(c.Examples))))
	if err != nil {
		return nil, err
	}
	small := newJob(c, src)
	small.Epochs, small.Batch = 1, c.traceBatch()
	j, err := onDisk(c, small, 1<<30, policy.NameBelady)
	if err != nil {
		return nil, err
	}
	j.Storage.Record = c.Record
	if c.Record == "" {
		j.Storage.Record = filepath.Join(c.Dir, "trace")
	}
	if _, err := run(ctx, j); err != nil {
		return nil, err
	}
	f, err := os.Open(j.Storage.Record)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := belady.Read(bufio.NewReader(f))
	if err == nil && len(t) == 0 {
		err = errors.New("ahead: a job has looked up nothing")
	}
	return t, err
}

// replay runs the policies over a trace, as tables and as simulators.
func replay(c *Config, t belady.Trace) (rows []report.Row, notes []string, err error) {
	spec := table.Spec{Name: "t", ID: 1, Dim: traceRow, Optimizer: table.Optimizer{Kind: table.SGD}}
	most, keys := 0, map[uint64]bool{}
	for _, b := range t {
		most = max(most, len(b))
		for _, k := range b {
			keys[k] = true
		}
	}
	warmed, from := t.Warmed(most)
	fit := max(int(float64(len(keys))*c.Percent/100), 4*most)
	notes = append(notes, fmt.Sprintf("the trace: %d steps of a lane, %d rows, at most %d in a step; about %d fit in memory", len(t), len(keys), most, fit))
	got, want := map[string]belady.Measured{}, map[string]int{}
	names := []string{policy.NameBelady, policy.NameS3FIFO, policy.NameLRU}
	for _, name := range names {
		m, err := belady.Replay(warmed, spec, belady.Setting{Policy: name, Rows: fit, Keys: len(keys), BatchRows: most, Window: train.LookAhead, Ahead: server.ReadSteps, Behind: server.StepsAtWork - 2, Seed: c.Seed}, from)
		if err != nil {
			return nil, nil, err
		}
		got[name], want[name] = m, belady.Simulate(warmed, name, m.Room, train.LookAhead, from).Reads
		rows = append(rows, report.Row{Op: "reads, " + name, Bytes: spec.RowBytes(), Iterations: m.Reads, Limit: float64(want[name]), Ratio: float64(m.Reads) / float64(want[name]),
			Load: report.Load(), Checksum: fmt.Sprintf("%08x", m.Made)})
		notes = append(notes, fmt.Sprintf("%s: %d rows read with %d in memory, the simulator's %d: %.4f x; %d that a step had to wait for", name, m.Reads, m.Room[len(warmed)-1], want[name], float64(m.Reads)/float64(want[name]), m.Waits))
	}
	for _, name := range names[1:] {
		// Each is held against a simulator with as many rows as it had itself.
		g := float64(got[names[0]].Reads) / float64(got[name].Reads)
		w := float64(want[names[0]]) / float64(want[name])
		notes = append(notes, fmt.Sprintf("%s reads %.4f of what %s does, by the simulators %.4f: %+.2f %%", names[0], g, name, w, 100*(g/w-1)))
	}
	return rows, notes, nil
}
