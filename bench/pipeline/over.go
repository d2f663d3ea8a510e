package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/pipe"
	"psrt/sched/pipe/settle"
)

// Steps that a line of psrt train pulls ahead in asp at most; in ssp.
const (
	deepASP = 4
	deepSSP = 2
)

// turnsOf is how many turns a line has in use when it takes another.
func turnsOf(depth, pushes int) int { return depth + 1 + pushes }

// aloneFor is about how long each direction of the link is measured by itself, in so many
// pieces, of which the first do not count.
const (
	aloneFor    = time.Second
	alonePieces = 64
	aloneWarm   = 16
)

// overLink runs lines whose pulls and pushes go over a link of bits a second: reading, the
// link and computing are the slowest in turn.
func overLink(ctx context.Context, cfg *Config, h *dial.Host, addr string) (rows []report.Row, notes []string, err error) {
	gross := float64(cfg.RateBits) / 8 / (4 * rowFloats) // rows a second
	w, err := newMember(ctx, h, addr, 0, max(1, int(2*cfg.Step.Seconds()*gross)), turnsOf(deepASP, cfg.Pushes))
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	a := &aloneTimes{w: w, rows: max(1, int(aloneFor.Seconds()*gross/alonePieces))}
	a.rows = min(a.rows, len(w.keys))
	if err := a.measure(); err != nil {
		return nil, nil, err
	}
	for _, jitter := range []float64{.1, .3} {
		for slowest, name := range []string{"read", "link", "compute"} {
			o := newOverLine(cfg, w, jitter, slowest, a.seconds())
			if err := o.run(ctx); err != nil {
				return nil, nil, err
			}
			if err := a.measure(); err != nil {
				return nil, nil, err
			}
			row, note := o.result(fmt.Sprintf("%s slowest, over a link, jitter %.0f %%", name, 100*jitter), a.seconds())
			rows, notes = append(rows, row), append(notes, note)
		}
	}
	got, err := w.pushed()
	if err != nil {
		return nil, nil, err
	}
	if got != int(w.clock) {
		return nil, nil, fmt.Errorf("pipeline: %d pushes were made and %d have counted: please report it", w.clock, got)
	}
	return rows, append(notes, fmt.Sprintf("over a link of %.0f Mbit/s each way to a server in another network namespace: values and gradients are rows of %d floats, over tcp; reading and computing sleep; the link by itself is what the same rows take one way with nothing else under way, the slower way, before and after each line; %d push(es) unanswered when a step begins: pulls have %.3f of its rate, pushes %.3f; each of %d pushes counted once",
		float64(cfg.RateBits)/1e6, rowFloats, cfg.Pushes, 1/turns.Median(a.pulls)/gross, 1/turns.Median(a.pushes)/gross, got)), nil
}

// aloneTimes are the seconds that a row takes one way, with nothing else on the link.
type aloneTimes struct {
	w             *member
	rows          int // of a piece
	pulls, pushes []float64
}

func (a *aloneTimes) measure() error {
	pull, err := a.w.alone(a.rows, func(t *turn, c *client.Call) error { return a.w.c.Pull(t.set, a.w.clock, client.AnyClock, c) })
	if err != nil {
		return err
	}
	push, err := a.w.alone(a.rows, func(t *turn, c *client.Call) error {
		a.w.clock++
		return a.w.c.Push(t.set, a.w.clock-1, true, c)
	})
	a.pulls, a.pushes = append(a.pulls, pull), append(a.pushes, push)
	return err
}

// seconds are those of the slower way.
func (a *aloneTimes) seconds() float64 { return max(turns.Median(a.pulls), turns.Median(a.pushes)) }

// alone posts pieces of so many rows, of which two are under way, and returns the seconds
// of a row.
func (w *member) alone(rows int, post func(*turn, *client.Call) error) (float64, error) {
	for _, t := range w.all[:2] {
		if err := w.plan(t, rows); err != nil {
			return 0, err
		}
	}
	var began time.Time
	var calls [2]client.Call
	for i := range alonePieces {
		if err := post(w.all[i%2], &calls[i%2]); err != nil {
			return 0, err
		}
		if i > 0 {
			if err := w.c.Wait(&calls[(i-1)%2]); err != nil {
				return 0, err
			}
		}
		if i == aloneWarm {
			began = time.Now()
		}
	}
	err := w.c.Wait(&calls[(alonePieces-1)%2])
	return time.Since(began).Seconds() / float64((alonePieces-aloneWarm)*rows), err
}

// overLine is one of these lines.
type overLine struct {
	w     *member
	line  pipe.Line
	tasks []task
	reads []time.Duration
	wall  time.Duration
}

// newOverLine draws the tasks; the link takes so many seconds for a row.
func newOverLine(cfg *Config, w *member, jitter float64, slowest int, seconds float64) *overLine {
	times := [3]float64{others, others, others}
	times[slowest] = 1
	o := &overLine{w: w, line: pipe.Line{Depth: settle.NewDepth(1, deepASP), Pushes: cfg.Pushes, Meter: &pipe.Meter{}}}
	r := rand.New(rand.NewPCG(cfg.Seed, 3))
	vary := func(stage int) float64 { return cfg.Step.Seconds() * times[stage] * (1 + jitter*(2*r.Float64()-1)) }
	for range cfg.Steps {
		o.reads = append(o.reads, time.Duration(vary(0)*1e9))
		rows := max(1, min(len(w.keys), int(vary(1)/seconds)))
		o.tasks = append(o.tasks, task{rows, time.Duration(vary(2) * 1e9)})
	}
	return o
}

func (o *overLine) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer stop()
	o.w.read = make(chan task, readAhead)
	reader.Go(func() { deliver(ctx, o.tasks, o.reads, o.w.read) })
	began := time.Now()
	err := pipe.Run(ctx, &o.line, o.w)
	o.wall = time.Since(began)
	return err
}

// result holds the time of a step against what the slowest stage takes by itself.
func (o *overLine) result(op string, seconds float64) (report.Row, string) {
	var stages [3]float64
	rows := 0
	for i, k := range o.tasks {
		stages[0] += o.reads[i].Seconds()
		stages[1] += float64(k.rows) * seconds
		stages[2] += k.compute.Seconds()
		rows += k.rows
	}
	steps, wall := float64(len(o.tasks)), o.wall.Seconds()
	longest := max(stages[0], stages[1], stages[2])
	s := o.line.Meter.Summary(pipe.Stage{Name: "read"})
	micros := wall / steps * 1e6
	row := report.Row{Op: op, Bytes: rows / len(o.tasks) * 4 * rowFloats, Iterations: len(o.tasks),
		Latency: &report.Latency{Min: longest / steps * 1e6, Typical: micros, Avg: micros, P99: micros, P999: micros},
		Limit:   longest / steps * 1e6, Ratio: wall / longest, Load: report.Load(), Checksum: fmt.Sprintf("%08x", s.Steps)}
	return row, fmt.Sprintf("%s: a step %.2f ms, the slowest stage %.2f ms, ratio %.3f; by themselves read %.3f, link %.3f, compute %.3f of the time; computing stood still for input %.3f, values %.3f, pushes %.3f; %d ahead",
		op, wall/steps*1e3, longest/steps*1e3, wall/longest, stages[0]/wall, stages[1]/wall, stages[2]/wall, s.WaitInput/wall, s.WaitValues/wall, s.WaitPush/wall, s.Depth)
}
