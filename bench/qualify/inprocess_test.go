package qualify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/fault"
	"psrt/rdma/tcp"
)

// quick is a plan for tests.
func quick() Plan {
	return Plan{Sizes: []int{64, 4096}, Iterations: 20, Duration: time.Millisecond, Timeout: 5 * time.Second, JoinTimeout: 10 * time.Second,
		MADs: 4, Latency: 0.5, Bandwidth: 0.25, Seed: 1}
}

// world is ranks in this process, over tcp.
type world struct {
	t       *testing.T
	job     Job
	scripts map[int]*fault.Script // of ranks whose requests fail
	lives   map[int]context.CancelFunc
	wait    sync.WaitGroup
	mu      sync.Mutex
	errs    map[int]error
}

func newWorld(t *testing.T, n int) *world {
	return &world{t: t, job: Job{World: n, Coordinator: "unix:" + t.TempDir() + "/d", Token: []byte(strings.Repeat("t", 16))},
		scripts: map[int]*fault.Script{}, lives: map[int]context.CancelFunc{}, errs: map[int]error{}}
}

func (w *world) start(rank int) {
	ctx, cancel := context.WithCancel(context.Background())
	w.lives[rank] = cancel
	w.t.Cleanup(cancel)
	cfg := RankConfig{Job: w.job, Listen: "127.0.0.1:0", JoinTimeout: 10 * time.Second}
	cfg.Rank = rank
	cfg.Dial.Transports = []dial.Transport{{Name: "tcp", CrossHost: true, Open: func() (rdma.Domain, error) {
		d, err := tcp.New(tcp.Config{Listen: "127.0.0.1:0"})
		if err != nil || w.scripts[rank] == nil {
			return d, err
		}
		return fault.Wrap(d, w.scripts[rank]), nil
	}}}
	w.wait.Go(func() {
		err := RunRank(ctx, cfg)
		w.mu.Lock()
		w.errs[rank] = err
		w.mu.Unlock()
	})
}

// direct runs the director; ranks 0 to n-1 but those that are absent are
// started.
func (w *world) direct(plan Plan, progress func(string), absent ...int) (*Finding, error) {
	w.t.Helper()
	d, err := Direct(w.job, plan, progress)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	for r := range w.job.World {
		skip := false
		for _, a := range absent {
			skip = skip || a == r
		}
		if !skip {
			w.start(r)
		}
	}
	return d.Run(w.t.Context())
}

func TestInProcess(t *testing.T) {
	w := newWorld(t, 5)
	f, err := w.direct(quick(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.wait.Wait()
	for r, err := range w.errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	if f.Unreachable() != 0 || f.Total.Ranks != 5 || len(f.Total.Failed) > 0 || f.Absent != "" {
		t.Errorf("%d unreachable, %+v", f.Unreachable(), f.Total)
	}
	rep := f.Report("tcp")
	if len(rep.Rows) != 3*20 || len(rep.Fabric.Kinds) != 3 {
		t.Errorf("%d rows, kinds %+v", len(rep.Rows), rep.Fabric.Kinds)
	}
	var b strings.Builder
	if err := rep.Text(&b); err != nil || !strings.Contains(b.String(), "all reach each other") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// A rank whose writes to another fail: that way is not reached, and says why;
// the way back is.
func TestBrokenWay(t *testing.T) {
	w := newWorld(t, 4)
	var err error
	if w.scripts[1], err = fault.NewScript(fault.Rule{Op: rdma.OpWrite, Peer: "rank 2", Nth: 1, Every: 1, Fail: rdma.StatusRetryExceeded}); err != nil {
		t.Fatal(err)
	}
	plan := quick()
	plan.NoTotal = true
	f, err := w.direct(plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.wait.Wait()
	rep := f.Report("tcp")
	u := rep.Fabric.Unreachable
	if len(u) != 1 || u[0].From != 1 || u[0].To != 2 || !strings.Contains(u[0].Error, "retry exceeded") || !strings.Contains(u[0].Error, "psrt doctor") {
		t.Errorf("unreachable: %+v", u)
	}
	if f.Unreachable() != 1 || !f.reached(2, 1) {
		t.Errorf("%d unreachable", f.Unreachable())
	}
}

// A way that fails once, and works when it is tried again, is told of.
func TestUnsteadyWay(t *testing.T) {
	w := newWorld(t, 3)
	var err error
	if w.scripts[1], err = fault.NewScript(fault.Rule{Op: rdma.OpWrite, Peer: "rank 2", Nth: 1, Fail: rdma.StatusRetryExceeded}); err != nil {
		t.Fatal(err)
	}
	f, err := w.direct(quick(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.wait.Wait()
	u := f.Report("tcp").Fabric.Unsteady
	if f.Unreachable() != 0 || len(u) != 1 || u[0].From != 1 || u[0].To != 2 || !strings.Contains(u[0].Error, "retry exceeded") {
		t.Errorf("%d unreachable, unsteady %+v", f.Unreachable(), u)
	}
}

// A rank that goes away in the middle, and one that never comes, are named.
func TestRanksThatAreNotThere(t *testing.T) {
	w := newWorld(t, 5)
	plan := quick()
	plan.JoinTimeout, plan.Serial = 8*time.Second, true // the others must have come by then
	waves := 0
	f, err := w.direct(plan, func(string) {
		if waves++; waves == 4 {
			w.lives[1]()
		}
	}, 3)
	if err != nil {
		t.Fatal(err)
	}
	w.wait.Wait()
	lost := strings.Join(f.Report("tcp").Fabric.Lost, "\n")
	if !strings.Contains(lost, "never heard of rank 3") || !strings.Contains(lost, "rank 1 on ") {
		t.Errorf("lost: %s", lost)
	}
	for _, p := range [][2]int{{0, 2}, {2, 0}, {0, 4}, {4, 0}, {2, 4}, {4, 2}} {
		if !f.reached(p[0], p[1]) {
			t.Errorf("%v was not measured: %s", p, f.cell(p[0], p[1]).err)
		}
	}
	if w.errs[1] == nil || w.errs[0] != nil {
		t.Errorf("ranks ended with %v", w.errs)
	}
}

// The director's end ends the ranks.
func TestDirectorEnds(t *testing.T) {
	w := newWorld(t, 3)
	d, err := Direct(w.job, quick(), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.start(0)
	w.start(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // ends it when both have come
		for ctx.Err() == nil {
			d.mu.Lock()
			if d.members[0] != nil && d.members[1] != nil {
				cancel()
			}
			d.mu.Unlock()
			time.Sleep(time.Millisecond)
		}
	}()
	if f, err := d.Run(ctx); err == nil || f != nil {
		t.Errorf("%v, %v", f, err)
	}
	d.Close()
	w.wait.Wait()
	for r, err := range w.errs {
		if !errors.Is(err, ErrDirector) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Who greets wrongly is told why.
func TestAdmit(t *testing.T) {
	w := newWorld(t, 3)
	plan := quick()
	plan.JoinTimeout = 8 * time.Second // all of them must have been told by then
	d, err := Direct(w.job, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = d.Run(t.Context()) // nothing comes of it
	}()
	for _, c := range []struct {
		change func(*RankConfig)
		says   string
	}{
		{func(c *RankConfig) { c.World = 4 }, "the same --world-size"},
		{func(c *RankConfig) { c.Token = []byte(strings.Repeat("x", 16)) }, "different tokens"},
		{func(c *RankConfig) { c.Rank = 3 }, "rank 3 of 3"},
		{func(c *RankConfig) { c.Token = nil }, "token of 0 bytes"},
		{func(c *RankConfig) { c.Coordinator += "x"; c.JoinTimeout = 300 * time.Millisecond }, "start rank 0 first"},
	} {
		cfg := RankConfig{Job: w.job, Listen: "127.0.0.1:0", JoinTimeout: 10 * time.Second}
		c.change(&cfg)
		if err := RunRank(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	w.start(0)
	<-done
	if err := RunRank(t.Context(), RankConfig{Job: w.job, Listen: "127.0.0.1:0", JoinTimeout: time.Second}); err == nil || !strings.Contains(fmt.Sprint(err), "rank 0") {
		t.Errorf("a rank that comes late or twice: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "3": {3}, "0-2, 5": {5, 0, 1, 2}, "1-2, 4-5": {4, 5, 1, 2}} {
		if got := numbers(list); got != want {
			t.Errorf("%v is %q, want %q", list, got, want)
		}
	}
}

// A region always has room for a slot of every rank, and one to send from.
func TestCrowdSlot(t *testing.T) {
	for n := 2; n <= MaxRanks; n++ {
		for _, p := range []Plan{{Sizes: []int{8}}, {Sizes: []int{4096}}, {Sizes: []int{1 << 20}}, {Sizes: []int{maxSize}}} {
			slot := crowdSlot(p.regionBytes(), n, p.Sizes[0])
			if slot < slotAlign || slot%slotAlign != 0 || n*slot > p.regionBytes() {
				t.Fatalf("%d ranks, sizes %v: slots of %d in %d", n, p.Sizes, slot, p.regionBytes())
			}
		}
	}
}
