package calibrate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"psrt/sched/dataset/gen"
	"psrt/sched/plan"
	"psrt/sched/train"
)

// Config says what to measure with.
type Config struct {
	Exe  string // a psrt
	Rows int64  // examples of the data; 0: 100,000
	Note func(string)
}

// Shape is one job.
type Shape struct {
	Model   plan.Model
	Batch   int
	Sync    string
	Workers int
	Servers int
	Dense   int // ranks that compute the dense layers; 0: workers do
}

// Checked is a prediction and what came of it.
type Checked struct {
	Shape     Shape   `json:"-"`
	Name      string  `json:"job"`
	Predicted float64 `json:"predicted_step_s"`
	Measured  float64 `json:"measured_step_s"`
	Ratio     float64 `json:"ratio"` // measured over predicted
	// CoreRatio is the same of core-seconds, which others on the machine change little.
	CoreRatio float64 `json:"core_ratio"`
	// Others is how many cores were busy with something else while it ran: of where that is
	// much, Measured says nothing. -1: not to be told.
	Others float64 `json:"others_cores"`
}

const (
	fields = 20
	vocab  = 200_000
	zipf   = 1.1
	// passes are those of the longer run, at its first try.
	passes = 3
	// repeats is how often a job is run that a prediction is held against.
	repeats = 3
)

func shape(kind string, dim, batch int, sync string, workers, servers int, hidden ...int) Shape {
	return Shape{Model: plan.Model{Kind: kind, Fields: fields, Dim: dim, Hidden: hidden, StateFloats: 2, Rows: vocab, Zipf: zipf}, Batch: batch, Sync: sync, Workers: workers, Servers: servers}
}

// split is a job whose dense layers are computed by ranks of their own.
func split(s Shape, ranks int) Shape {
	s.Dense = ranks
	return s
}

func (s Shape) String() string {
	name := fmt.Sprintf("%s, dim %d, batch %d, %s", s.Model.Kind, s.Model.Dim, s.Batch, s.Sync)
	if len(s.Model.Hidden) > 0 {
		name += fmt.Sprintf(", hidden %v", s.Model.Hidden)
	}
	if s.Workers+s.Servers > 2 {
		name += fmt.Sprintf(", %d servers, %d workers", s.Servers, s.Workers)
	}
	if s.Dense > 0 {
		name += fmt.Sprintf(", %d dense ranks", s.Dense)
	}
	return name
}

// learned are the jobs that costs come from, held those that predictions are held
// against.
var (
	learned = []Shape{
		shape("lr", 1, 4096, "asp", 1, 1), shape("fm", 4, 1024, "asp", 1, 1), shape("fm", 4, 16384, "asp", 1, 1), shape("fm", 64, 2048, "asp", 1, 1),
		shape("fm", 64, 16384, "asp", 1, 1), shape("deepfm", 8, 4096, "asp", 1, 1, 256, 128), shape("deepfm", 8, 1024, "asp", 1, 1, 64), shape("fm", 4, 256, "asp", 1, 1),
		shape("fm", 24, 6000, "asp", 1, 1), shape("deepfm", 20, 3000, "asp", 1, 1, 96, 48),
		split(shape("deepfm", 8, 4096, "bsp", 1, 1, 64), 1), split(shape("deepfm", 24, 2048, "bsp", 1, 1, 96, 48), 1),
	}
	held = []Shape{
		shape("fm", 16, 4096, "asp", 1, 1), shape("fm", 32, 8192, "asp", 1, 1), shape("deepfm", 16, 2048, "asp", 1, 1, 128, 64), shape("fm", 16, 4096, "bsp", 1, 1), shape("fm", 16, 8192, "asp", 2, 2),
		split(shape("deepfm", 16, 4096, "bsp", 1, 1, 128, 64), 1),
	}
)

// bench is data on their way through jobs.
type bench struct {
	cfg  Config
	dir  string
	data string
}

func open(ctx context.Context, cfg Config) (*bench, error) {
	if cfg.Rows == 0 {
		cfg.Rows = 100_000
	}
	dir, err := os.MkdirTemp("", "psrt-plan-")
	if err != nil {
		return nil, err
	}
	b := &bench{cfg: cfg, dir: dir, data: filepath.Join(dir, "data.libffm")}
	_, err = gen.Run(ctx, gen.Config{Kind: "zipf", Rows: cfg.Rows, Fields: fields, Vocab: vocab, Zipf: zipf, Seed: 1, Out: b.data, Threads: runtime.NumCPU()})
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bench) close() error { return os.RemoveAll(b.dir) }

// run trains so many passes, and says how many cores others had meanwhile.
func (b *bench) run(ctx context.Context, s Shape, passes int) (*train.Result, float64, error) {
	args := []string{"train", "--data", b.data, "--dataset", "queue", "--model", s.Model.Kind, "--dim", strconv.Itoa(s.Model.Dim), "--batch", strconv.Itoa(s.Batch), "--sync", s.Sync,
		"--servers", strconv.Itoa(s.Servers), "--workers", strconv.Itoa(s.Workers), "--lanes", "1", "--epochs", strconv.Itoa(passes), "--transport", "shm", "--quiet", "--json"}
	if len(s.Model.Hidden) > 0 {
		var h []string
		for _, n := range s.Model.Hidden {
			h = append(h, strconv.Itoa(n))
		}
		args = append(args, "--hidden", strings.Join(h, ","))
	}
	if s.Dense > 0 {
		args = append(args, "--heter", "--dense-ranks", strconv.Itoa(s.Dense))
	}
	before := now()
	var out, said bytes.Buffer
	c := exec.CommandContext(ctx, b.cfg.Exe, args...)
	c.Stdout, c.Stderr = &out, &said
	if err := c.Run(); err != nil {
		return nil, 0, fmt.Errorf("calibrate: psrt %s: %w: %.500s", strings.Join(args, " "), err, said.String())
	}
	res := &train.Result{}
	if err := json.Unmarshal(out.Bytes(), res); err != nil {
		return nil, 0, fmt.Errorf("calibrate: result of psrt train: %w", err)
	}
	return res, now().others(before, c.ProcessState.UserTime()+c.ProcessState.SystemTime()), nil
}

// spent is what passes of a job took.
type spent struct {
	plan.Sample
	seconds float64
	others  float64 // cores, in the longer run
}

// positive is a difference of which something is left. Starts differ, too, more on a busy
// machine: what is lost in that is looked for in a longer run.
func (b *bench) positive(ctx context.Context, s Shape) (d spent, err error) {
	for try := range repeats {
		if d, err = b.difference(ctx, s, passes<<try); err != nil {
			return d, err
		}
		if d.Examples > 0 && d.WorkerNs > 0 && d.ServerNs > 0 && d.seconds > 0 {
			return d, nil
		}
	}
	return d, fmt.Errorf("calibrate: %s: %d passes took no longer than one (%+v): give more --rows", s, passes<<(repeats-1), d)
}

// difference is passes without the start: of the longer run what the shorter one had
// not.
func (b *bench) difference(ctx context.Context, s Shape, passes int) (spent, error) {
	short, _, err := b.run(ctx, s, 1)
	if err != nil {
		return spent{}, err
	}
	long, others, err := b.run(ctx, s, passes)
	if err != nil {
		return spent{}, err
	}
	d := spent{Sample: plan.Sample{Model: s.Model, Examples: float64(long.Examples - short.Examples), Dense: float64(s.Dense)}, seconds: long.TrainSeconds - short.TrainSeconds, others: others}
	d.Steps = float64(long.Pipeline.Steps - short.Pipeline.Steps)
	for sign, res := range map[float64]*train.Result{1: long, -1: short} {
		for _, r := range res.Ranks {
			if strings.HasPrefix(r.Rank, "server") {
				d.ServerNs += sign * r.CPUSeconds * 1e9
			} else {
				d.WorkerNs += sign * r.CPUSeconds * 1e9
			}
		}
		for _, u := range res.ServerUse {
			for _, f := range u.Flows {
				if f.Table != "(dense)" {
					d.Rows += sign * float64(f.OutBytes)
				}
			}
		}
	}
	d.Rows /= 4 * s.Model.RowFloats()
	return d, nil
}

// medians are the middle ones of several differences of each job, by the time on the wall.
// The jobs take turns: a machine that is shared is another some minutes later.
func (b *bench) medians(ctx context.Context, shapes []Shape) ([]spent, error) {
	all := make([][]spent, len(shapes))
	for round := range repeats {
		for i, s := range shapes {
			b.cfg.Note(fmt.Sprintf("round %d of %d, job %d of %d: %s", round+1, repeats, i+1, len(shapes), s))
			d, err := b.positive(ctx, s)
			if err != nil {
				return nil, err
			}
			all[i] = append(all[i], d)
		}
	}
	middle := make([]spent, len(shapes))
	for i, a := range all {
		slices.SortFunc(a, func(x, y spent) int { return cmp.Compare(x.seconds, y.seconds) })
		middle[i] = a[repeats/2]
	}
	return middle, nil
}

// Measure finds the costs of a core of this machine; what a single machine does not
// show is taken from known.
func Measure(ctx context.Context, cfg Config, known plan.Costs) (costs plan.Costs, err error) {
	costs, _, err = measure(ctx, cfg, known, nil)
	return costs, err
}

// measure runs more jobs beside those that costs come from.
func measure(ctx context.Context, cfg Config, known plan.Costs, more []Shape) (costs plan.Costs, of []spent, err error) {
	b, err := open(ctx, cfg)
	if err != nil {
		return known, nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all, err := b.medians(ctx, slices.Concat(learned, more))
	if err != nil {
		return known, nil, err
	}
	var samples []plan.Sample
	for _, d := range all[:len(learned)] {
		samples = append(samples, d.Sample)
	}
	costs, err = plan.Fit(samples, known)
	return costs, all[len(learned):], err
}

// Check finds these costs, and holds predictions against jobs that they were not learned
// from, which take turns with the others.
func Check(ctx context.Context, cfg Config, known plan.Costs) (costs plan.Costs, all []Checked, err error) {
	costs, of, err := measure(ctx, cfg, known, held)
	if err != nil {
		return costs, nil, err
	}
	for i, s := range held {
		d := of[i]
		here := &plan.Cluster{Model: s.Model, Costs: costs, Job: plan.Job{Batch: s.Batch, Sync: s.Sync, Replicas: 1, Transport: "shm"},
			Hosts: []plan.Host{{Name: "this machine", Count: 1, Cores: runtime.NumCPU(), Workers: s.Workers, DenseRanks: s.Dense, Servers: s.Servers, Lanes: 1}}}
		if err := here.Validate(); err != nil {
			return costs, all, err
		}
		p := plan.Predict(here)
		c := Checked{Shape: s, Name: s.String(), Predicted: p.StepSeconds, Measured: d.seconds / d.Steps, Others: d.others}
		c.Ratio = c.Measured / c.Predicted
		for _, r := range p.Resources {
			if r.Unit == "cores" {
				c.CoreRatio = (d.WorkerNs + d.ServerNs) * 1e-9 / d.Steps / (r.Busy * r.Have)
			}
		}
		all = append(all, c)
	}
	return costs, all, nil
}
