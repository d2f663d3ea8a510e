package train

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/sched/client"
	"psrt/sched/compress"
	"psrt/sched/coord"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// With topk, and where steps are merged, a worker keeps what it has not sent yet. A checkpoint has that of each worker
// beside its parts, as it was between the same two steps, so that a job goes on from it as
// if nothing had happened. Worker 0 says that a checkpoint begins before it tells the
// servers. In BSP it does so only while it has the step in front still to push (see hold):
// then no worker has values of the step behind, and each looks for that word when it has
// them, while it computes. Where workers need not keep step, those that are ahead write what
// they have then.

// unsentOrder is that word.
type unsentOrder struct {
	Step   uint64 `json:"step"` // before whose push it is to be saved
	Ticket string `json:"ticket"`
}

const keyUnsent = "unsent"

// unsentKey has what a worker says to such an order. Who goes on for worker 0 may give the
// number of a checkpoint that was under way to another; the tickets are not the same.
func unsentKey(ticket string, worker int) string {
	sum := sha256.Sum256([]byte(ticket))
	return fmt.Sprintf("unsent/%x/%d", sum[:8], worker)
}

func unsentFile(worker int) string { return fmt.Sprintf("unsent-%d", worker) }

// unsentSaid is what a worker says when it has saved.
type unsentSaid struct {
	File    ckpt.Beside `json:"file"`
	Failure string      `json:"failure,omitempty"`
}

// keepers are the flags with which checkpoints have something beside them.
const keepers = "--compress topk or --merge-pushes"

// savesUnsent says whether checkpoints have what workers have not sent. A stream's may be
// behind the last step that there is.
func (j *Job) savesUnsent() bool {
	return j.Compress.Keeps() && j.Checkpoint != nil && j.Stream == nil
}

// unsentLook bounds a look for the word: where it fails, so does the checkpoint, and
// training goes on. Behind one that failed a step waits for unsentShort at most.
const (
	unsentLook  = 10 * time.Second
	unsentShort = 100 * time.Millisecond
)

// unsent saves this worker's. It belongs to who runs the steps; nil saves nothing.
type unsent struct {
	w       *worker
	ctx     context.Context  // the job's
	asked   chan unsentFound // of the look under way, nil: none
	order   *unsentOrder     // to be carried out
	done    string           // the ticket of the last one that was
	silent  bool             // the last look has failed
	told    bool             // that one has
	writing sync.WaitGroup
}

// unsentFound is what a look has found: order is nil where nothing was ever said.
type unsentFound struct {
	order *unsentOrder
	err   error
}

func newUnsent(ctx context.Context, w *worker) *unsent {
	if !w.job.savesUnsent() {
		return nil
	}
	return &unsent{w: w, ctx: ctx}
}

// inherit leaves alone what the process before may have carried out, or begun to: a file of
// this one in place of its own would be neither's. Where that one had not said anything, it
// never will, and the checkpoint has failed.
func (u *unsent) inherit(ctx context.Context) error {
	if u == nil || u.w.rank.Index == 0 { // what worker 0 has begun is nobody's
		return nil
	}
	kv, err := u.w.rank.Coord.Get(ctx, keyUnsent)
	if errors.Is(err, coord.ErrNotFound) {
		return nil
	}
	var o unsentOrder
	if err == nil {
		err = json.Unmarshal(kv.Value, &o)
	}
	if err != nil {
		return fmt.Errorf("train: whether a checkpoint waits for worker %d: %w", u.w.rank.Index, err)
	}
	u.done = o.Ticket
	b, err := json.Marshal(unsentSaid{Failure: fmt.Sprintf("worker %d died, and what it had not sent yet with it; the next checkpoint is tried", u.w.rank.Index)})
	if err == nil {
		_, err = coord.PutNew(ctx, u.w.rank.Coord, unsentKey(o.Ticket, u.w.rank.Index), b, 0)
	}
	if errors.Is(err, coord.ErrConflict) {
		return nil
	}
	return err
}

// look looks for the word, which worker 0 need not. Preconditions: the values of the step to
// be pushed next are here.
func (u *unsent) look() {
	if u == nil || u.asked != nil || u.w.rank.Index == 0 {
		return
	}
	asked := make(chan unsentFound, 1)
	u.asked = asked
	go func() {
		ctx, cancel := context.WithTimeout(u.ctx, unsentLook)
		defer cancel()
		var o unsentOrder
		kv, err := u.w.rank.Coord.Get(ctx, keyUnsent)
		if err == nil {
			err = json.Unmarshal(kv.Value, &o)
		}
		switch {
		case errors.Is(err, coord.ErrNotFound):
			asked <- unsentFound{}
		case err != nil:
			asked <- unsentFound{err: err}
		default:
			asked <- unsentFound{order: &o}
		}
	}()
}

// hear takes what the look under way has found. Where the one before has failed it does not
// wait for this one to end, whose answer may then be one of an earlier step: what comes too
// late is noticed.
func (u *unsent) hear() {
	if u.asked == nil {
		return
	}
	var enough <-chan time.Time
	if u.silent {
		enough = time.After(unsentShort)
	}
	select {
	case f := <-u.asked:
		u.asked, u.silent = nil, f.err != nil
		if f.order != nil && f.order.Ticket != u.done {
			u.order = f.order
		}
		if f.err != nil && !u.told && u.ctx.Err() == nil {
			u.told = true
			u.w.rank.emit(Event{Warning: fmt.Sprintf("worker %d cannot ask the coordinator whether a checkpoint begins (%v): until it can, training goes on and checkpoints fail", u.w.rank.Index, f.err)})
		}
	case <-enough:
	}
}

// ordered tells worker 0's of a checkpoint that this process has begun.
func (u *unsent) ordered(o unsentOrder) {
	if u != nil {
		u.order = &o
	}
}

// early is worker 0's save where it waits, before the push of the step in question, for the
// checkpoint. Preconditions: the step before that one is pushed.
func (u *unsent) early() {
	if u != nil && u.order != nil {
		u.save(u.order.Step)
	}
}

// save is called before the push of a step.
func (u *unsent) save(clock uint64) {
	if u == nil {
		return
	}
	u.hear()
	if u.order == nil || clock < u.order.Step || u.w.inherited != nil && clock < u.w.inherited.fresh { // servers have later ones
		return
	}
	o := *u.order
	u.order, u.done = nil, o.Ticket
	if u.w.job.bsp() && clock > o.Step {
		late := fmt.Sprintf("worker %d heard at step %d that what was unsent before step %d is to be saved, which is too late: the coordinator did not answer it in time, or servers gave it that step's values before worker 0 said so; the next checkpoint is tried", u.w.rank.Index, clock, o.Step)
		u.writing.Go(func() { u.say(o, unsentSaid{Failure: late}) })
		return
	}
	text := u.w.client.Unsent()
	u.writing.Go(func() {
		file, err := ckpt.WriteBeside(u.ctx, o.Ticket, unsentFile(u.w.rank.Index), text)
		said := unsentSaid{File: file}
		if err != nil {
			said.Failure = err.Error()
		}
		u.say(o, said)
	})
}

// say tells worker 0 what became of it. Where that fails, so does the checkpoint.
func (u *unsent) say(o unsentOrder, said unsentSaid) {
	if b, err := json.Marshal(said); err == nil {
		_, _ = u.w.rank.Coord.Put(u.ctx, unsentKey(o.Ticket, u.w.rank.Index), b, 0)
	}
}

// pass ends a pass, whose steps all workers have pushed: who was ahead of the word saves now.
func (u *unsent) pass() {
	if u == nil {
		return
	}
	u.look()
	u.save(^uint64(0))
}

func (u *unsent) close() {
	if u != nil {
		u.writing.Wait()
	}
}

// hold says whether the next step is to be waited for; wait is whether the line does. Of
// several workers in BSP each must know of a checkpoint before it has values of the step
// behind. So none begins where this one has pushed the step in front, as it has where the
// line waits; and where one is due, the step behind is waited for with that push held back.
// One that is due before the first step of a pass begins before the second, where there is one.
func (s *saver) hold(pos position, wait bool) bool {
	if s == nil || !s.w.job.savesUnsent() || !s.w.job.bsp() || s.w.job.Workers == 1 {
		return wait
	}
	s.first = wait
	return wait || (s.running == nil || len(s.running) > 0) && s.due(pos)
}

// miss notes a step before which a checkpoint was due and none may begin.
func (s *saver) miss(pos position) {
	if s.first && s.wanted(pos) {
		s.missed++
		s.tellMissed(2)
	}
}

// tellMissed says, once, that there are no checkpoints, where least were missed without one
// between them: in passes of one step that goes on for ever.
func (s *saver) tellMissed(least int) {
	if s.begun || s.missed < least {
		return
	}
	s.begun = true
	s.w.rank.emit(Event{Warning: fmt.Sprintf("no checkpoint is written in %s while passes have one step: with --compress %s, --sync %s and several workers one begins behind the first step of a pass at the earliest; give --batch less than half of the rows, or --compress fp16, int8 or none", s.cfg.Dir, compress.Top, BSP)})
}

// say tells the workers that a checkpoint begins.
func (s *saver) say(ctx context.Context, next *ckpt.Next) (o unsentOrder, err error) {
	if !s.w.job.savesUnsent() {
		return o, nil
	}
	o = unsentOrder{s.w.clock, next.Ticket()}
	b, err := json.Marshal(o)
	if err == nil {
		_, err = s.w.rank.Coord.Put(ctx, keyUnsent, b, 0)
	}
	return o, err
}

// unsent waits for what the workers saved: for all of them, whichever failed, as one that
// still writes would make anew what is removed.
func (s *saver) unsent(ctx context.Context, ticket string) (files []ckpt.Beside, err error) {
	if !s.w.job.savesUnsent() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.w.rank.timeout())
	defer cancel()
	for i := range s.w.job.Workers {
		file, e := s.unsentOf(ctx, unsentKey(ticket, i), i)
		if files = append(files, file); err == nil {
			err = e
		}
	}
	return files, err
}

// unsentOf waits for what one worker says, under key.
func (s *saver) unsentOf(ctx context.Context, key string, worker int) (file ckpt.Beside, err error) {
	b, err := coord.Await(ctx, s.w.rank.Coord, key)
	if err != nil {
		return file, fmt.Errorf("train: waiting for worker %d to save what it has not sent yet: %w", worker, err)
	}
	var said unsentSaid
	if err := json.Unmarshal(b, &said); err != nil {
		return file, fmt.Errorf("train: %s is not understood: %w", key, err)
	}
	if _, err := s.w.rank.Coord.Delete(ctx, key); err != nil && !errors.Is(err, coord.ErrNotFound) {
		return file, err
	}
	if said.Failure != "" {
		return file, errors.New(said.Failure)
	}
	return said.File, nil
}

// findUnsent is worker 0's: whether workers go on with what is beside a checkpoint, whose
// position is at.
func (w *worker) findUnsent(m *ckpt.Model, at *position) (some bool, err error) {
	j := w.job
	was := fmt.Sprintf("checkpoint %d in %s was written with %s by %d workers", m.Number, m.Dir(), keepers, len(m.Beside))
	switch {
	case len(m.Beside) == 0 && !at.Top:
		return false, nil
	case len(m.Beside) == 0:
		was = fmt.Sprintf("checkpoint %d in %s was written with %s, and nothing of what workers had not sent yet is beside it", m.Number, m.Dir(), keepers)
		if j.savesUnsent() && j.bsp() {
			return false, &InputError{fmt.Errorf("train: %s: the model would not be that of a job that nobody stopped; give --compress fp16, int8 or none, or --sync %s or %s, to go on without", was, SSP, ASP)}
		}
	case j.savesUnsent() && len(m.Beside) == j.Workers:
		return true, nil
	case j.savesUnsent() && j.bsp():
		return false, &InputError{fmt.Errorf("train: %s: what each has not sent yet is in it, and belongs to nobody of %d; give --workers %d, or --compress fp16, int8 or none, or --sync %s or %s", was, j.Workers, len(m.Beside), SSP, ASP)}
	}
	w.rank.emit(Event{Warning: was + "; what they had not sent yet is left out"})
	return false, nil
}

// takeUnsent goes on with what this worker's predecessor had not sent; outside BSP without it
// where it cannot be read.
func (w *worker) takeUnsent(ctx context.Context, number uint64) error {
	b, err := w.readUnsent(ctx, number)
	dense, none := w.model.Layout().Total, 0
	if w.job.reduces() { // sums are pushed whole
		dense, none = 0, client.DenseUnsent(b)
	}
	switch {
	case err == nil && none > 0 && w.job.bsp():
		return &InputError{fmt.Errorf("train: of %d dense values worker %d had something not sent yet, and with --dense %s nobody sends that: the model would not be that of a job that nobody stopped; give --dense %s, or --compress fp16, int8 or none", none, w.rank.Index, w.job.Dense, DensePS)}
	case err == nil:
		if none > 0 {
			w.rank.emit(Event{Warning: fmt.Sprintf("of %d dense values worker %d had something not sent yet, which is left out with --dense %s", none, w.rank.Index, w.job.Dense)})
		}
		return w.client.TakeUnsent(b, []table.Spec{w.spec}, dense)
	case ctx.Err() != nil:
		return err
	case w.job.bsp():
		return fmt.Errorf("%w; to go on without what worker %d had not sent yet, give --compress fp16, int8 or none", err, w.rank.Index)
	}
	w.rank.emit(Event{Warning: fmt.Sprintf("what worker %d had not sent yet is left out: %v", w.rank.Index, err)})
	return nil
}

func (w *worker) readUnsent(ctx context.Context, number uint64) ([]byte, error) {
	m, err := ckpt.OpenAt(ctx, w.job.Checkpoint.Dir, number)
	if err != nil {
		return nil, err
	}
	if w.rank.Index >= len(m.Beside) {
		return nil, fmt.Errorf("train: checkpoint %d in %s has nothing of worker %d: is it the same place on every machine?", number, m.Dir(), w.rank.Index)
	}
	return m.ReadBeside(ctx, m.Beside[w.rank.Index])
}
