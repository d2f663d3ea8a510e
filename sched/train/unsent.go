package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/sched/compress"
	"psrt/sched/coord"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// With topk a worker keeps what it has not sent yet. A checkpoint has that of each worker
// beside its parts, as it was between the same two steps, so that a job goes on from it as
// if nothing had happened. Worker 0 says that a checkpoint begins before it tells the
// servers, and so before it pushes the step in front: in BSP no worker has values of the
// step behind by then, and each looks for that word when it has them, while it computes.
// Where workers need not keep step, those that are ahead write what they have then.

// unsentOrder is that word.
type unsentOrder struct {
	Number uint64 `json:"number"`
	Step   uint64 `json:"step"` // before whose push it is to be saved
	Ticket string `json:"ticket"`
}

const keyUnsent = "unsent"

func unsentKey(number uint64, worker int) string { return fmt.Sprintf("unsent/%d/%d", number, worker) }

func unsentFile(worker int) string { return fmt.Sprintf("unsent-%d", worker) }

// unsentSaid is what a worker says when it has saved.
type unsentSaid struct {
	File    ckpt.Beside `json:"file"`
	Failure string      `json:"failure,omitempty"`
}

// savesUnsent says whether checkpoints have what workers have not sent. A stream's may be
// behind the last step that there is.
func (j *Job) savesUnsent() bool {
	return j.Compress.Code == compress.Top && j.Checkpoint != nil && j.Stream == nil
}

// unsentLook bounds a look for the word: where it fails, so does the checkpoint, and
// training goes on.
const unsentLook = 10 * time.Second

// unsent saves this worker's. It belongs to who runs the steps; nil saves nothing.
type unsent struct {
	w       *worker
	ctx     context.Context   // the job's
	asked   chan *unsentOrder // of the look under way, nil: none
	order   *unsentOrder      // to be carried out
	done    uint64            // the number of the last one that was
	writing sync.WaitGroup
}

func newUnsent(ctx context.Context, w *worker) *unsent {
	if !w.job.savesUnsent() {
		return nil
	}
	return &unsent{w: w, ctx: ctx}
}

// look looks for the word. Preconditions: the values of the step to be pushed next are here.
func (u *unsent) look() {
	if u == nil || u.asked != nil {
		return
	}
	asked := make(chan *unsentOrder, 1)
	u.asked = asked
	go func() {
		ctx, cancel := context.WithTimeout(u.ctx, unsentLook)
		defer cancel()
		var o unsentOrder
		kv, err := u.w.rank.Coord.Get(ctx, keyUnsent)
		if err == nil {
			err = json.Unmarshal(kv.Value, &o)
		}
		if err != nil {
			asked <- nil
			return
		}
		asked <- &o
	}()
}

// save is called before the push of a step.
func (u *unsent) save(clock uint64) {
	if u == nil {
		return
	}
	if u.asked != nil {
		if o := <-u.asked; o != nil && o.Number > u.done {
			u.order = o
		}
		u.asked = nil
	}
	if u.order == nil || clock < u.order.Step {
		return
	}
	o := *u.order
	u.order, u.done = nil, o.Number
	if u.w.job.bsp() && clock > o.Step {
		late := fmt.Sprintf("worker %d heard of it too late: the coordinator has not answered for %v", u.w.rank.Index, unsentLook)
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
		_, _ = u.w.rank.Coord.Put(u.ctx, unsentKey(o.Number, u.w.rank.Index), b, 0)
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

// say tells the workers that a checkpoint begins.
func (s *saver) say(ctx context.Context, next *ckpt.Next) error {
	if !s.w.job.savesUnsent() {
		return nil
	}
	b, err := json.Marshal(unsentOrder{next.Number(), s.w.clock, next.Ticket()})
	if err == nil {
		_, err = s.w.rank.Coord.Put(ctx, keyUnsent, b, 0)
	}
	return err
}

// unsent waits for what the workers saved.
func (s *saver) unsent(ctx context.Context, number uint64) (files []ckpt.Beside, err error) {
	if !s.w.job.savesUnsent() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.w.rank.timeout())
	defer cancel()
	for i := range s.w.job.Workers {
		key := unsentKey(number, i)
		b, err := coord.Await(ctx, s.w.rank.Coord, key)
		if err != nil {
			return nil, fmt.Errorf("train: waiting for worker %d to save what it has not sent yet: %w", i, err)
		}
		var said unsentSaid
		if err := json.Unmarshal(b, &said); err != nil {
			return nil, fmt.Errorf("train: %s is not understood: %w", key, err)
		}
		if said.Failure != "" {
			return nil, errors.New(said.Failure)
		}
		files = append(files, said.File)
		if _, err := s.w.rank.Coord.Delete(ctx, key); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return nil, err
		}
	}
	return files, nil
}

// findUnsent is worker 0's: whether workers go on with what is beside a checkpoint.
func (w *worker) findUnsent(m *ckpt.Model) (some bool, err error) {
	if len(m.Beside) == 0 {
		return false, nil
	}
	was := fmt.Sprintf("checkpoint %d in %s was written with --compress %s by %d workers", m.Number, m.Dir(), compress.Top, len(m.Beside))
	switch j := w.job; {
	case j.savesUnsent() && len(m.Beside) == j.Workers:
		return true, nil
	case j.savesUnsent() && j.bsp():
		return false, &InputError{fmt.Errorf("train: %s: what each has not sent yet is in it, and belongs to nobody of %d; give --workers %d, or --compress fp16, int8 or none, or --sync %s or %s", was, j.Workers, len(m.Beside), SSP, ASP)}
	}
	w.rank.emit(Event{Note: was + "; what they had not sent yet is left out"})
	return false, nil
}

// takeUnsent goes on with what this worker's predecessor had not sent.
func (w *worker) takeUnsent(ctx context.Context, number uint64) error {
	m, err := ckpt.OpenAt(ctx, w.job.Checkpoint.Dir, number)
	if err != nil {
		return err
	}
	if w.rank.Index >= len(m.Beside) {
		return fmt.Errorf("train: checkpoint %d in %s has nothing of worker %d: is it the same place on every machine?", number, m.Dir(), w.rank.Index)
	}
	b, err := m.ReadBeside(ctx, m.Beside[w.rank.Index])
	if err != nil {
		return err
	}
	return w.client.TakeUnsent(b, []table.Spec{w.spec}, w.model.Layout().Total)
}
