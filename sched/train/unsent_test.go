package train

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"psrt/sched/compress"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/pipe"
	"psrt/tiers/ckpt"
)

// A worker in BSP that hears of a checkpoint when it has pushed the step already has not what
// belongs to it, and says so; one that hears in time waits for the step.
func TestUnsentHeardTooLate(t *testing.T) {
	c := local.New()
	defer c.Close()
	w := &worker{job: &Job{Sync: BSP}, rank: &Rank{Coord: c, Index: 3}}
	u := &unsent{w: w, ctx: t.Context()}
	tell := func(o unsentOrder) {
		t.Helper()
		b, err := json.Marshal(o)
		if err == nil {
			_, err = c.Put(t.Context(), keyUnsent, b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	u.look()
	u.save(6) // nobody has said anything
	tell(unsentOrder{Ticket: "one", Step: 9})
	u.look()
	if u.save(8); u.order == nil || u.done != "" {
		t.Fatalf("at step 8 %+v is to be done, %q is", u.order, u.done)
	}
	u.look()
	if u.save(10); u.order != nil || u.done != "one" {
		t.Fatalf("at step 10 %+v is to be done, %q is", u.order, u.done)
	}
	u.close()
	var said unsentSaid
	kv, err := c.Get(t.Context(), unsentKey("one", 3))
	if err == nil {
		err = json.Unmarshal(kv.Value, &said)
	}
	if err != nil || !strings.Contains(said.Failure, "worker 3 heard at step 10 that what was unsent before step 9") {
		t.Errorf("it says %+v, %v", said, err)
	}
	u.look()
	if u.save(11); u.order != nil {
		t.Error("it is to be done again")
	}
}

// mute is a coordinator that answers no Get until it is told to.
type mute struct {
	coord.Coordinator
	speak chan struct{}
}

func (m *mute) Get(ctx context.Context, key string) (coord.KV, error) {
	select {
	case <-m.speak:
		return m.Coordinator.Get(ctx, key)
	case <-ctx.Done():
		return coord.KV{}, ctx.Err()
	}
}

// A look behind one that failed is not waited for, and what it finds in the end counts.
func TestUnsentSilentCoordinator(t *testing.T) {
	c := local.New()
	defer c.Close()
	m := &mute{c, make(chan struct{})}
	notes := 0
	w := &worker{job: &Job{Sync: BSP}, rank: &Rank{Coord: m, Index: 1, Events: func(Event) { notes++ }}}
	u := &unsent{w: w, ctx: t.Context()}
	for range 2 { // it tells of the first alone
		u.asked = make(chan unsentFound, 1)
		u.asked <- unsentFound{err: coord.ErrUnavailable}
		u.save(1)
	}
	if !u.silent || notes != 1 {
		t.Errorf("silent: %v, %d notes", u.silent, notes)
	}
	b, err := json.Marshal(unsentOrder{Ticket: "four", Step: 9})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), keyUnsent, b, 0); err != nil {
		t.Fatal(err)
	}
	u.look()
	if u.save(2); u.asked == nil || u.order != nil {
		t.Fatal("an answer that nobody gave was heard")
	}
	close(m.speak)
	for clock := uint64(3); u.asked != nil; clock++ {
		u.save(min(clock, 8))
	}
	if u.silent || u.order == nil || u.order.Ticket != "four" {
		t.Errorf("silent: %v, order %+v", u.silent, u.order)
	}
}

// What workers say of a checkpoint is taken to the last of them, and the first failure counts.
func TestUnsentWords(t *testing.T) {
	c := local.New()
	defer c.Close()
	w := &worker{job: &Job{Workers: 3, Compress: compress.Choice{Code: compress.Top, Share: .1}, Checkpoint: &Checkpoint{}}, rank: &Rank{Coord: c}}
	s := &saver{w: w}
	for i, said := range []unsentSaid{{File: ckpt.Beside{File: "a"}}, {Failure: "no room"}, {Failure: "none here"}} {
		(&unsent{w: &worker{rank: &Rank{Coord: c, Index: i}}, ctx: t.Context()}).say(unsentOrder{Ticket: "seven"}, said)
	}
	if _, err := s.unsent(t.Context(), "seven"); err == nil || err.Error() != "no room" {
		t.Errorf("it says %v", err)
	}
	if left, _, err := c.List(t.Context(), "unsent/"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v is left", left, err)
	}
}

// TestUnsentOfTheDead: who goes on for a worker carries out no order that was given before,
// and says that the checkpoint has failed where the process before has said nothing.
func TestUnsentOfTheDead(t *testing.T) {
	c := local.New()
	defer c.Close()
	job := &Job{Workers: 3, Compress: compress.Choice{Code: compress.Top, Share: .1}, Checkpoint: &Checkpoint{}}
	of := func(i int) *unsent {
		return newUnsent(t.Context(), &worker{job: job, rank: &Rank{Coord: c, Index: i, Generation: 2}})
	}
	order := func(ticket string, step uint64) {
		t.Helper()
		b, err := json.Marshal(unsentOrder{step, ticket})
		if err == nil {
			_, err = c.Put(t.Context(), keyUnsent, b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := of(1).inherit(t.Context()); err != nil {
		t.Errorf("where nobody has said anything: %v", err)
	}
	order("one", 9)
	saved := unsentSaid{File: ckpt.Beside{File: "a"}}
	for i := range 2 {
		of(i).say(unsentOrder{Ticket: "one"}, saved)
	}
	for i := range 3 {
		u := of(i)
		if err := u.inherit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			continue
		}
		u.look()
		if u.save(8); u.order != nil {
			t.Errorf("worker %d is to carry out what the one before was told", i)
		}
		if i == 2 {
			order("two", 30)
			u.look()
			if u.save(8); u.order == nil {
				t.Error("it hears of no other")
			}
		}
	}
	s := &saver{w: &worker{job: job, rank: &Rank{Coord: c}}}
	if files, err := s.unsent(t.Context(), "one"); err == nil || !strings.Contains(err.Error(), "worker 2 died") || len(files) != 3 || files[1] != saved.File {
		t.Errorf("it says %v, %v", files, err)
	}
}

// TestHold: of several workers in BSP a checkpoint begins only while the step in front is
// still to be pushed; the step behind is waited for then.
func TestHold(t *testing.T) {
	job := &Job{Sync: BSP, Workers: 2, Compress: compress.Choice{Code: compress.Top, Share: .1}, Checkpoint: &Checkpoint{Steps: 5}}
	w := &worker{job: job, rank: &Rank{}, pos: position{Steps: 5}}
	w.saver = &saver{w: w, cfg: job.Checkpoint, when: time.Now()}
	q := &queue{w: w, poll: func() error { return nil }, in: make(chan planned)}
	tr := &training{streaming: streaming{w, q}}
	late := errors.New("late")
	next := func(wait bool, want pipe.State) {
		t.Helper()
		if _, state, err := tr.Next(t.Context(), wait); state != want || want == pipe.End && !errors.Is(err, late) {
			t.Errorf("%v, %v, want %v", state, err, want)
		}
	}
	w.saver.at = 5
	next(false, pipe.Later) // none is due
	w.saver.at = 0
	w.saver.running = make(chan outcome, 1)
	next(false, pipe.Later) // none can begin
	w.saver.running = nil
	go func() { q.in <- planned{err: late} }()
	if next(false, pipe.End); !w.saver.due(w.pos) {
		t.Error("none begins behind a step")
	}
	q.steps, q.last = nil, false
	go func() { q.in <- planned{err: late} }()
	if next(true, pipe.End); w.saver.due(w.pos) {
		t.Error("one begins where no step is in front")
	}
	job.Workers, w.saver.first = 1, false // who hears itself
	q.steps, q.last = nil, false
	go func() { q.in <- planned{err: late} }()
	if next(true, pipe.End); !w.saver.due(w.pos) {
		t.Error("none begins at the only worker")
	}
}

// TestMissed: a job whose checkpoints are due where none may begin says so, once; one that
// misses the first step of each pass alone says nothing.
func TestMissed(t *testing.T) {
	for _, c := range []struct {
		name         string
		passes, long int
		notes        int
	}{{"one pass of one step", 1, 1, 0}, {"two", 2, 1, 1}, {"many", 9, 1, 1}, {"of two steps", 9, 2, 0}} {
		notes := 0
		job := &Job{Sync: BSP, Workers: 2, Compress: compress.Choice{Code: compress.Top, Share: .1}, Checkpoint: &Checkpoint{Dir: "there", Steps: 1}}
		w := &worker{job: job, rank: &Rank{Events: func(e Event) {
			notes++
			if !strings.Contains(e.Warning, "no checkpoint is written in there") {
				t.Errorf("%s: %q", c.name, e.Warning)
			}
		}}}
		s := &saver{w: w, cfg: job.Checkpoint, when: time.Now()}
		pos := position{}
		for range c.passes {
			for i := range c.long {
				s.hold(pos, i == 0)
				if s.due(pos) { // as step does, without servers
					s.missed, s.begun, s.at = 0, true, pos.Steps
				} else {
					s.step(t.Context(), pos)
				}
				pos.Steps++
			}
		}
		if s.settle(); notes != c.notes {
			t.Errorf("%s: %d notes, want %d", c.name, notes, c.notes)
		}
	}
}

// TestFindUnsent: of a checkpoint of topk that has nothing of what was kept, bsp does not go on.
func TestFindUnsent(t *testing.T) {
	top := compress.Choice{Code: compress.Top, Share: .1}
	for _, c := range []struct {
		job        Job
		was        bool
		beside     int
		some, fail bool
		notes      int
	}{
		{job: Job{Sync: BSP, Compress: top}},
		{job: Job{Sync: BSP, Compress: top}, was: true, fail: true},
		{job: Job{Sync: BSP, Compress: top}, was: true, beside: 2, some: true},
		{job: Job{Sync: BSP, Compress: top}, was: true, beside: 3, fail: true},
		{job: Job{Sync: BSP}, was: true, notes: 1},
		{job: Job{Sync: ASP, Compress: top}, was: true, notes: 1},
		{job: Job{Sync: ASP, Compress: top}, was: true, beside: 3, notes: 1},
	} {
		notes := 0
		c.job.Workers, c.job.Checkpoint = 2, &Checkpoint{}
		w := &worker{job: &c.job, rank: &Rank{Events: func(Event) { notes++ }}}
		m := &ckpt.Model{}
		m.Beside = make([]ckpt.Beside, c.beside)
		some, err := w.findUnsent(m, &position{Top: c.was})
		var bad *InputError
		if some != c.some || errors.As(err, &bad) != c.fail || c.fail && !strings.Contains(err.Error(), "--compress fp16, int8 or none") || notes != c.notes {
			t.Errorf("%s, topk %v, then %v with %d files: %v, %v, %d notes", c.job.Sync, c.job.Compress.On(), c.was, c.beside, some, err, notes)
		}
	}
}
