package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"psrt/sched/clock"
	"psrt/sched/coord"
	"psrt/sched/dataset"
	"psrt/tiers/ckpt"
)

// What happens when a worker dies.
const (
	LossEnd      = "end"      // so does the job
	LossRestart  = "restart"  // the launcher starts it again
	LossContinue = "continue" // a worker that lives goes on for it, beside its own part
)

// WorkerTimeout is how many seconds a worker may be silent where nobody says.
const WorkerTimeout = 15.0

// lostFor is how long servers wait for who goes on for a worker that died, where
// somebody may.
const lostFor = 2 * time.Minute

func (j *Job) validateLoss() error {
	switch {
	case j.OnWorkerLoss != "" && j.OnWorkerLoss != LossEnd && j.OnWorkerLoss != LossRestart && j.OnWorkerLoss != LossContinue:
		return fmt.Errorf("train: --on-worker-loss %q, want %s, %s or %s", j.OnWorkerLoss, LossEnd, LossRestart, LossContinue)
	case j.WorkerTimeout != 0 && (j.WorkerTimeout < 0.3 || j.WorkerTimeout > 3600):
		return fmt.Errorf("train: --worker-timeout of %g s, want 0.3 to 3600", j.WorkerTimeout)
	}
	return nil
}

// Survives says whether the job goes on when a worker dies.
func (j *Job) Survives() bool { return j.OnWorkerLoss == LossRestart || j.OnWorkerLoss == LossContinue }

// Silence is how long a worker may be silent.
func (j *Job) Silence() time.Duration {
	s := j.WorkerTimeout
	if s == 0 {
		s = WorkerTimeout
	}
	return time.Duration(s * float64(time.Second))
}

// reconnectFor is how long a server waits for a worker whose connection broke; 0 is
// its default.
func (j *Job) reconnectFor() time.Duration {
	if j.Survives() {
		return lostFor
	}
	return 0
}

// Takeover is a worker's number going over to another process. What that needs is at
// the servers, by lane: the step in which the worker is and the newest of its pushes
// that counts; and at the coordinator: where the pass began, and what the worker has
// told the others at their gatherings, which stays. What a worker reads for a step,
// and what it pushes in which order, depends on its number and the step alone. So the
// new process reads on at the oldest step that some lane lacks, and sends its pushes
// with the sequence numbers that they had: a lane that has them counts them once.
type Takeover struct {
	Worker int    `json:"worker"` // number among the members: dense ranks count on behind the workers
	Rank   string `json:"rank"`   // how people know it
	Step   uint64 `json:"step"`   // since the job began, or was resumed, counted from 0
	// Exact: no lane had added that step up, so that the values pulled for it, and all
	// that follows, are what they would have been. In ssp and asp that is no promise.
	Exact bool `json:"exact"`
	// Dropped: what the process before had kept of gradients, to send it later, is lost.
	Dropped bool `json:"dropped,omitempty"`
	// Together: its process lived, and began again with the others of its host; see company.
	Together bool `json:"together,omitempty"`
}

func (t Takeover) String() string {
	what := "is another process"
	if t.Together {
		what = "begins again with the workers of its host,"
	}
	s := fmt.Sprintf("%s %s from step %d on; every example counts once", t.Rank, what, t.Step)
	switch {
	case t.Dropped:
		s += "; of gradients it lacks those that the process before had kept back (--compress topk)"
	case !t.Exact:
		s += "; some servers had added that step up and others had not got it: the model is not bit for bit what it would have been"
	}
	return s
}

// inherited is what a process knows of those before it with its worker's number.
type inherited struct {
	from  uint64 // the oldest step that some lane lacks; clock.None: all have seen it leave
	fresh uint64 // of which no lane has anything, nor of those after it
	clean bool   // in bsp: no lane had added step from up
}

// stood is where a worker was when it began a pass.
type stood struct {
	Position position `json:"position"`
	Clock    uint64   `json:"clock"`
	// Generation is of the process: one that another has replaced writes nothing more.
	Generation int `json:"generation,omitempty"`
}

// StoodPrefix begins the keys of workers that have begun.
const StoodPrefix = "stood/"

func stoodKey(worker int) string { return fmt.Sprintf("%s%d", StoodPrefix, worker) }

// begin finds out where the job stands: anew, from a checkpoint, or from the process
// that had this worker's number before.
func (w *worker) begin(ctx context.Context) error {
	if w.rank.Generation > 1 {
		known, err := w.inherit(ctx)
		if err == nil {
			err = w.unsent.inherit(ctx)
		}
		if err == nil {
			err = w.spans.inherit(ctx)
		}
		if err == nil {
			err = w.takeOver(ctx, known)
		}
		if err == nil && known {
			err = w.inheritKeeper(ctx)
		}
		if err != nil || known {
			return err
		}
	}
	var err error
	if w.rank.Generation < 2 && w.carried != nil {
		if err = w.carried.company.first(ctx); err != nil {
			return err
		}
	}
	if w.pos, err = w.resume(ctx); err != nil {
		return err
	}
	if err := w.beginLife(ctx); err != nil {
		return err
	}
	return w.stand(ctx)
}

// hadLeft says whether the process before this one had left the job, whose servers may
// be gone. Worker 0 has the result to tell.
func hadLeft(ctx context.Context, job *Job, rank *Rank) (bool, error) {
	if rank.Generation < 2 || rank.Index == 0 {
		return false, nil
	}
	said, err := coord.Party{Name: "left", N: job.Workers, ID: rank.Index}.Said(ctx, rank.Coord)
	return said != nil, err
}

// stand writes down where the worker is, for who goes on for it.
func (w *worker) stand(ctx context.Context) error {
	if w.rank.Generation == 0 {
		return nil
	}
	at := stood{w.pos, w.clock, w.rank.Generation}
	return putNewest(ctx, w.rank.Coord, stoodKey(w.rank.Index), at.Generation, at)
}

// inherit reads it.
func (w *worker) inherit(ctx context.Context) (known bool, err error) {
	kv, err := w.rank.Coord.Get(ctx, stoodKey(w.rank.Index))
	if errors.Is(err, coord.ErrNotFound) {
		return false, nil // it had not begun
	}
	if err != nil {
		return false, err
	}
	var s stood
	if err := json.Unmarshal(kv.Value, &s); err != nil {
		return false, fmt.Errorf("train: where worker %d stood is not understood: %w", w.rank.Index, err)
	}
	w.pos, w.clock = s.Position, s.Clock
	if w.rank.Index > 0 {
		return true, nil
	}
	if w.job.Lifecycle != nil {
		if w.lived, err = w.readLife(ctx); err != nil {
			return false, err
		}
		w.pos.Life = w.newer(w.pos.Life, w.clock)
	}
	if w.job.Checkpoint != nil {
		return true, w.inheritSaver(ctx)
	}
	return true, nil
}

// inheritSaver goes on with the history of checkpoints. One that was under way is
// given up: the servers forget it when the next begins.
func (w *worker) inheritSaver(ctx context.Context) (err error) {
	var r resumption
	said, err := w.said(ctx, "resume")
	if err == nil && said != nil {
		err = json.Unmarshal(said, &r)
	}
	if err != nil {
		return err
	}
	w.runID = r.Run
	err = w.awaitLock(ctx, func() (err error) {
		w.saver, err = newSaver(ctx, w)
		return err
	})
	if err != nil {
		return err
	}
	if head := w.saver.h.Head(); head != nil {
		w.saver.sum.Newest = head.Number
	}
	w.saver.sum.ResumedFrom = r.From
	return nil
}

// lookForLock is between two looks whether somebody still has a history's lock.
const lookForLock = 100 * time.Millisecond

// awaitLock opens a history when the process before has ended: one that is stopped, and
// not killed yet, has its lock.
func (w *worker) awaitLock(ctx context.Context, open func() error) error {
	told := false
	for end := time.Now().Add(lostFor / 2); ; {
		var held *ckpt.LockedError
		err := open()
		if !errors.As(err, &held) || time.Now().After(end) {
			return err
		}
		if !told {
			told = true
			w.rank.emit(Event{Note: fmt.Sprintf("worker %d goes on when the process before it has ended: %v", w.rank.Index, err)})
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookForLock):
		}
	}
}

// takeOver learns from the servers what the processes before have pushed, and tells
// them where this one goes on.
func (w *worker) takeOver(ctx context.Context, known bool) error {
	in, exact, err := w.pushedBefore(ctx)
	if err != nil {
		return err
	}
	w.inherited = in
	if in == nil || in.from == clock.None {
		return nil
	}
	if in.fresh > w.clock && !known {
		return fmt.Errorf("train: worker %d has pushed up to step %d, but nobody wrote down where it began: please report this", w.rank.Index, in.fresh)
	}
	exact = exact && (w.lived == nil || !w.lived.Life.Counting) // rows are counted anew, as they are later
	t := Takeover{Worker: w.rank.Index, Rank: w.job.MemberName(w.rank.Index), Step: in.from, Exact: exact || !w.job.holdsSteps()}
	t.Together = w.rank.BeganAgain
	if t.Dropped = w.job.drops() && in.fresh > 0; t.Dropped {
		t.Exact = t.Exact && !w.job.holdsSteps()
	}
	if known { // otherwise stand follows
		if err := w.keptAgain(ctx, in.from); err != nil {
			return err
		}
		if err := w.takes(ctx, t, w.inexact); err != nil {
			return err
		}
	}
	w.rank.emit(Event{Warning: t.String()}) // what is said stays, whoever dies then
	return nil
}

// inexact says whether what this process's first pulls were answered with was not what those
// of the one before were.
func (w *worker) inexact() bool { return !w.carried.follows() && w.client.Inexact() }

// pushedBefore is takeOver, of a worker that asks servers or is told by who does: from clock.None where those before had
// left, nil where they had not begun, exact where the values of the first step are those that they had.
func (w *worker) pushedBefore(ctx context.Context) (in *inherited, exact bool, err error) {
	if w.carried != nil && w.carried.company != nil {
		return w.carried.company.goesOn(ctx)
	}
	return w.askServers(ctx)
}

func (w *worker) askServers(ctx context.Context) (in *inherited, exact bool, err error) {
	each := make([]uint64, w.client.Lanes()) // pushes to a lane in a step
	for i := range each {
		each[i] = 1
		if w.job.evenPushes() {
			each[i]++ // of rows that were kept, before those of the step
		}
	}
	for i, lane := range w.all[0].dense.Lanes() {
		if w.pushesTo(i) {
			each[lane]++
		}
	}
	in = &inherited{from: clock.None}
	exact = true
	standing := w.client.Standing()
	for i, s := range standing {
		if s.At == clock.None {
			continue
		}
		if s.Last < s.At*each[i] || s.Last >= (s.At+1)*each[i] {
			return nil, false, fmt.Errorf("train: lane %d has %d pushes of %s, which is in step %d and makes %d a step: please report this", i, s.Last, w.job.MemberName(w.rank.Index), s.At, each[i])
		}
		in.from, in.fresh = min(in.from, s.At), max(in.fresh, s.At+min(1, s.Last-s.At*each[i]))
	}
	if in.from == clock.None {
		return in, true, nil
	}
	if in.from, err = w.heldSince(ctx, in.from); err != nil {
		return nil, false, err
	}
	in.clean = w.job.mode(DenseTable).BSP()
	for _, s := range standing {
		in.clean = in.clean && (s.At == clock.None || s.Applied <= in.from)
		exact = exact && s.Gives(in.from)
	}
	return in, exact, w.client.GoOn(ctx, in.from, func(lane int) uint64 { return in.from * each[lane] })
}

// isNew says whether the step that is about to begin is one of which no lane has
// anything: what happens between two steps cannot happen before an older one.
func (w *worker) isNew() bool { return w.inherited == nil || w.clock >= w.inherited.fresh }

// goOnAt has the reader go on in the running epoch: behind the steps that the job had
// when it was resumed, and those that the processes before had pushed everywhere. It
// counts the examples of the former, and this worker's of the latter.
func (w *worker) goOnAt(r *dataset.Reader) (before, mine int64, err error) {
	if w.job.Stream != nil {
		before, err = w.seek(r)
	} else if w.job.dynamic() {
		err = r.Seek(w.pos.Epoch, dataset.Cursor{})
	} else {
		before, err = skip(r, w.pos.Step)
	}
	if err != nil || w.inherited == nil || w.inherited.from == w.clock {
		return before, 0, err
	}
	in := w.inherited
	if in.from == clock.None || in.from < w.clock {
		return 0, 0, fmt.Errorf("train: worker %d begins a pass at step %d, and is in step %d at the servers: please report this", w.rank.Index, w.clock, in.from)
	}
	n := in.from - w.clock
	for i := range n {
		step, err := r.Next()
		if errors.Is(err, io.EOF) && w.job.evenPushes() && w.job.drops() {
			w.leftSent = int(n - i)
			w.clock += n - i
			n = i
			break
		}
		if err != nil {
			return 0, 0, fmt.Errorf("train: the process before had trained %d steps of a pass that has %d now: %w", n, i, err)
		}
		for l := range step.Leaves {
			mine += int64(step.Leaves[l].Len())
		}
		if w.lived == nil || w.clock+i >= w.lived.Clock {
			w.pos.Life.Rows += int64(step.Rows)
		}
		step.Release()
	}
	w.clock += n
	w.pos.Step += int(n)
	w.pos.Steps += n
	return before, mine, nil
}

// said is what this worker has said at a gathering, under an earlier process: nil for
// nothing, and always where there was none.
func (w *worker) said(ctx context.Context, name string) ([]byte, error) {
	if w.rank.Generation < 2 {
		return nil, nil
	}
	return w.party(name).Said(ctx, w.rank.Coord)
}

// party is this worker's place at a gathering. What it says there stays until
// forget: a process that goes on for it, or for another, may come later.
func (w *worker) party(name string) coord.Party {
	return coord.Party{Name: name, N: w.job.Workers, ID: w.rank.Index, Stays: w.rank.Generation > 0}
}

// forget removes what was said in the pass before the last: all have stood behind it
// since.
func (w *worker) forget(ctx context.Context, epoch int) error {
	if epoch < 0 || w.rank.Generation == 0 {
		return nil
	}
	names := []string{trainName(epoch), validName(epoch), keepName(epoch), dayName(epoch), keptName(epoch)}
	names = append(append(names, w.job.slotNames(trainName(epoch))...), w.job.slotNames(validName(epoch))...)
	for _, name := range names {
		if err := w.party(name).Forget(ctx, w.rank.Coord); err != nil {
			return err
		}
	}
	return nil
}

// leavingName is the gathering behind which workers leave the servers.
const leavingName = "leaving"

// The gatherings of a pass, which is counted from 0.
func trainName(epoch int) string { return fmt.Sprintf("train-%d", epoch+1) }
func validName(epoch int) string { return fmt.Sprintf("valid-%d", epoch+1) }
func keepName(epoch int) string  { return fmt.Sprintf("keep-%d", epoch+1) }
func keptName(epoch int) string  { return fmt.Sprintf("kept-%d", epoch+1) }
func dayName(epoch int) string   { return fmt.Sprintf("day-%d", epoch+1) }
