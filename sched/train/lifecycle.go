package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// servingAfter is how many steps at most, and servingPart which part of a day, after
// the end of a day within a pass rows over the table's capacity go and a save for
// serving begins: until then what the shrink ended is dropped and scores are counted,
// while training goes on.
const (
	servingAfter = 100
	servingPart  = 4
)

// apart is how many steps lie between two things of which the second waits for the
// first: a cut is taken when worker 0 has pushed the step before it, which it does
// when it has begun the next.
const apart = 2

// Serving is where models for serving go, and what became of them.
type Serving struct {
	Location string `json:"location"`
	Bases    int    `json:"bases"`
	Deltas   int    `json:"deltas"`
	Failed   int    `json:"failed,omitempty"`
	// LastFailure is why the last one failed; "": it did not.
	LastFailure string `json:"last_failure,omitempty"`
	Newest      uint64 `json:"newest"` // its number
	// WriteSeconds is the longest from a cut to its commit, WaitSeconds the longest
	// that training stood still for the end of a day.
	WriteSeconds float64 `json:"write_s"`
	WaitSeconds  float64 `json:"wait_s"`
	// LatencySeconds is the longest from when the servers had the last row of a day to
	// the commit of the save with it, LastLatencySeconds that of the newest.
	LatencySeconds     float64 `json:"latency_s"`
	LastLatencySeconds float64 `json:"last_latency_s"`
}

// Life is what became of the features of a job whose table has a lifecycle.
type Life struct {
	psmsg.Lives
	// Deleted are the rows that went, by shrinks and by capacity.
	Deleted     uint64   `json:"rows_deleted"`
	WaitSeconds float64  `json:"wait_s"` // the longest that training stood still for the end of a day
	Serving     *Serving `json:"serving,omitempty"`
}

// lifeAt is where a job stands with its table's life: part of a checkpoint.
type lifeAt struct {
	Events  int     `json:"events,omitempty"` // asked for so far
	Days    int     `json:"days,omitempty"`
	Rows    int64   `json:"rows,omitempty"`    // examples of the day so far
	Seconds float64 `json:"seconds,omitempty"` // of the day before the job was resumed
	// After is the step before which what is left to do for the last day is done, 0
	// for nothing. Counting: rows that are too many for the capacity are to go by then.
	After    uint64 `json:"after,omitempty"`
	Counting bool   `json:"counting,omitempty"`
	// Begun is the step before which the last cut for it began.
	Begun uint64 `json:"begun,omitempty"`
	// Open is how many events there were when the save for serving under way began,
	// 0 for none; OpenDelta is its kind.
	Open      int  `json:"open,omitempty"`
	OpenDelta bool `json:"open_delta,omitempty"`
	// Chain is how many saves for serving there are from the last base on, 0 where a
	// base must follow; Saved is the number of the newest.
	Chain int    `json:"chain,omitempty"`
	Saved uint64 `json:"saved,omitempty"`
}

// daysWithin says whether a day may end between two steps of a pass.
func (j *Job) daysWithin() bool {
	if j.Lifecycle == nil {
		return false
	}
	s := j.schedule()
	examples, every := s.Length()
	return examples > 0 || every > 0
}

// keeper is worker 0's: it has days end, and saves for serving made.
type keeper struct {
	w       *worker
	plan    table.Schedule
	h       *ckpt.History // for serving, nil without
	began   time.Time     // of the day, in this process
	ended   time.Time     // the last one, when the servers had its last row
	writing chan served   // of the save under way, nil when there is none
	counted chan counted  // of scores being counted, nil when there are none
	wait    float64
	sum     Serving
	// before is the number of the step before which a lull had decided what is to happen, and
	// 1: the step in front of that one may be pushed.
	before uint64
	// heir: what a process before this one had under way is still to be gone on with.
	heir bool
}

type served struct {
	number  uint64
	seconds float64
	latency float64
	err     error
}

type counted struct {
	below float64
	err   error
}

// newKeeper opens what worker 0 needs; at is where the job goes on.
func newKeeper(ctx context.Context, w *worker) (*keeper, error) {
	k := &keeper{w: w, plan: w.job.schedule(), began: time.Now()}
	if at := &w.pos.Life; w.job.Serving == "" {
		if at.Open == 0 {
			return k, nil
		}
		at.Open, at.OpenDelta = 0, false
		return k, k.happen(ctx, accessor.Event{Kind: accessor.Failed}) // there is nowhere it could go
	}
	var err error
	if k.h, err = openServing(ctx, w.job, w.runID); err != nil {
		return nil, err
	}
	k.sum.Location = w.job.Serving
	return k, k.resume(ctx, &w.pos.Life)
}

func openServing(ctx context.Context, job *Job, run string) (*ckpt.History, error) {
	return ckpt.OpenHistory(ctx, job.Serving, ckpt.HistoryOptions{Keep: servingKeep, Run: run})
}

// servingKeep is how many bases for serving stay, with their deltas.
const servingKeep = 4

// resume goes on with the history of a job that was stopped: with the save that was
// under way, if it has become good, or else once more.
func (k *keeper) resume(ctx context.Context, at *lifeAt) error {
	if at.Open > 0 {
		if m := k.h.Head(); m != nil && m.Number > at.Saved {
			var mark servingMark
			if json.Unmarshal(m.Position, &mark) == nil && mark.Events == at.Open {
				k.writing = make(chan served, 1)
				k.writing <- served{number: m.Number}
				return nil
			}
		}
	}
	if at.Saved > 0 {
		if err := k.h.Resume(ctx, at.Saved); err != nil {
			at.Chain = 0
			k.w.rank.emit(Event{Warning: fmt.Sprintf("the save for serving %d in %s is not there any more (%v): a base comes next", at.Saved, k.sum.Location, err)})
		}
	}
	if at.Open > 0 {
		// No step has to be pushed for this cut to be taken: the days to come are not
		// put off by it, or they would end elsewhere than in a job that was not stopped.
		begun := at.Begun
		defer func() { at.Begun = begun }()
		return k.serve(ctx, at.Open, at.OpenDelta && at.Chain > 0)
	}
	return nil
}

// servingMark tells a save for serving from one that a job begins again.
type servingMark struct {
	Events int `json:"events"`
}

// busy says that servers have a cut under way which is not a checkpoint's.
func (k *keeper) busy() bool {
	return k != nil && (k.counted != nil || k.w.pos.Life.After > 0 && k.capacity() > 0 || k.writing != nil && len(k.writing) == 0)
}

func (k *keeper) capacity() uint64 { return k.w.job.Lifecycle.Capacity }

// lull decides what is to happen before the next step, which has not come. It goes without
// a day's end that only a later look at the clock would have found: that comes a step later.
func (k *keeper) lull(ctx context.Context) error {
	if err := k.step(ctx); err != nil {
		return err
	}
	k.before = k.w.pos.Steps + 1
	return nil
}

// decided says whether a lull has.
func (k *keeper) decided() bool { return k.before == k.w.pos.Steps+1 }

// step is called before a step is pulled: the end of a day comes between the one
// before and it, at every server.
func (k *keeper) step(ctx context.Context) error {
	if k == nil || k.decided() {
		return nil
	}
	if err := k.inherit(ctx); err != nil {
		return err
	}
	at := &k.w.pos.Life
	examples, every := k.plan.Length()
	if every > 0 {
		now := time.Now()
		at.Seconds, k.began = at.Seconds+now.Sub(k.began).Seconds(), now
	}
	isOver := examples > 0 && at.Rows >= examples || every > 0 && at.Rows > 0 && at.Seconds >= every.Seconds()
	switch {
	case k.w.pos.Steps < at.Begun+apart:
		return nil
	case at.Counting && k.counted == nil: // a process before this one did; what follows comes later, too
		return k.count(ctx)
	case isOver && at.After == 0:
		defer k.waited(time.Now())
		return k.endDay(ctx, false)
	case at.After > 0 && (isOver || k.w.pos.Steps >= at.After):
		defer k.waited(time.Now())
		return k.finishDay(ctx)
	}
	return nil
}

func (k *keeper) waited(since time.Time) { k.wait = max(k.wait, time.Since(since).Seconds()) }

// endPass is called behind the last step of a pass, when its updates are everywhere.
func (k *keeper) endPass(ctx context.Context) error {
	if err := k.inherit(ctx); err != nil {
		return err
	}
	at := &k.w.pos.Life
	if at.After > 0 {
		if err := k.finishDay(ctx); err != nil {
			return err
		}
	}
	if k.plan.Day == table.DayPass && at.Rows > 0 {
		return k.endDay(ctx, true)
	}
	return nil
}

// endDay has a day end: first the save for serving that the last one began, then
// the shrink, then the day. What needs time for it, finishDay does.
func (k *keeper) endDay(ctx context.Context, now bool) error {
	at := &k.w.pos.Life
	events, err := k.endSave(ctx)
	if err != nil {
		return err
	}
	at.Days++
	at.Rows, at.Seconds, k.began = 0, 0, time.Now()
	if k.ended = k.began; now && !k.w.pushed.IsZero() {
		k.ended = k.w.pushed
	}
	shrinks := k.plan.ShrinkEvery > 0 && at.Days%k.plan.ShrinkEvery == 0
	if shrinks {
		events = append(events, accessor.Event{Kind: accessor.Shrink})
	}
	if at.Counting = shrinks && k.capacity() > 0; at.Counting || k.serves() {
		at.After = k.w.pos.Steps + k.delay()
	}
	if err := k.happen(ctx, append(events, accessor.Event{Kind: accessor.Day})...); err != nil {
		return err
	}
	if at.Counting {
		if err := k.count(ctx); err != nil {
			return err
		}
	}
	if now && at.After > 0 {
		return k.finishDay(ctx)
	}
	return nil
}

// alone waits for the checkpoint under way: servers take one cut at a time. That one may be
// waiting for this worker to push the step in front.
func (k *keeper) alone(ctx context.Context) error {
	s := k.w.saver
	if s == nil || s.running == nil {
		return nil
	}
	k.w.unsent.early()
	o, err := await(ctx, k.w, s.running)
	if err == nil {
		s.over(o)
	}
	return err
}

// lookAgain is between two looks at what servers have answered meanwhile.
const lookAgain = time.Millisecond

// await waits for c. What servers answer meanwhile is handled: a push that they want
// again may be what is waited for.
func await[T any](ctx context.Context, w *worker, c <-chan T) (v T, err error) {
	t := time.NewTicker(lookAgain)
	defer t.Stop()
	for {
		select {
		case v = <-c:
			return v, nil
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-t.C:
			if err := w.client.Poll(); err != nil {
				return v, err
			}
		}
	}
}

// delay is servingAfter for the length that days have.
func (k *keeper) delay() uint64 {
	examples, _ := k.plan.Length()
	if examples == 0 {
		return servingAfter
	}
	return uint64(min(servingAfter, max(apart, examples/int64(k.w.job.Batch)/servingPart)))
}

// serves says whether a save for serving belongs to the day that has ended last.
func (k *keeper) serves() bool {
	return k.h != nil && k.plan.ServingEvery > 0 && k.w.pos.Life.Days%k.plan.ServingEvery == 0
}

// finishDay has the rows go that are too many, and begins the save for serving.
func (k *keeper) finishDay(ctx context.Context) error {
	at := &k.w.pos.Life
	if at.Counting {
		if k.counted == nil { // likewise, and all is pushed: between steps a cut is never over at once
			if err := k.count(ctx); err != nil {
				return err
			}
		}
		c, err := await(ctx, k.w, k.counted)
		if err != nil {
			return err
		}
		if k.counted, at.Counting = nil, false; c.err != nil {
			return fmt.Errorf("train: counting rows by score, for the capacity of %d: %w", k.capacity(), c.err)
		}
		if !k.serves() {
			at.After = 0
		}
		if c.below > 0 {
			err = k.happen(ctx, accessor.Event{Kind: accessor.Evict, Below: c.below})
		} else { // no event says that nothing is left to count
			err = k.writeDown(ctx, lifeCard{From: at.Events, Clock: k.w.clock})
		}
		if err != nil {
			return err
		}
	}
	if !k.serves() {
		at.After = 0
		return nil
	}
	// A delta names all that has gone: what is dropped by then.
	for i := range k.w.client.Servers() {
		if err := k.w.client.CallAgain(ctx, i, psmsg.MethodSwept, struct{}{}, &struct{}{}); err != nil {
			return err
		}
	}
	if err := k.alone(ctx); err != nil {
		return err
	}
	delta := at.Chain > 0 && at.Chain < k.plan.ServingBaseEvery
	if delta {
		if err := k.h.Intact(ctx); errors.Is(err, ckpt.ErrNoBase) {
			k.w.rank.emit(Event{Warning: fmt.Sprintf("a whole model for serving is written in place of a change of the last one: %v", err)})
			delta = false
		}
	}
	kind := accessor.CutBase
	if delta {
		kind = accessor.CutDelta
	}
	at.After, at.Begun, at.Open, at.OpenDelta = 0, k.w.pos.Steps, at.Events+1, delta
	if err := k.happen(ctx, accessor.Event{Kind: kind}); err != nil {
		return err
	}
	return k.serve(ctx, at.Open, delta)
}

// serve has the servers write the rows of the save that has begun, as they are
// between this step and the one before.
func (k *keeper) serve(ctx context.Context, events int, delta bool) error {
	k.writing = make(chan served, 1)
	k.w.pos.Life.Begun = k.w.pos.Steps
	next, err := k.h.Begin(ctx, ckpt.NextOptions{Delta: delta, WeightsOnly: true, Quantise: k.plan.ServingQuantize})
	if err != nil {
		k.writing <- served{err: err}
		return nil
	}
	c, start, epoch, step := k.w.client.Caller(), time.Now(), k.w.pos.Epoch, k.w.pos.Steps
	ended := k.ended
	if ended.IsZero() {
		ended = start // of a save that a job before this one began
	}
	_, err = callEach[struct{}](ctx, c, psmsg.MethodCut, psmsg.CutRequest{Ticket: next.Ticket(), Step: k.w.clock, Delta: delta, Serving: true})
	if err != nil {
		k.writing <- served{err: errors.Join(err, k.endCut(ctx, c), next.Abort())}
		return nil
	}
	go func() {
		err := k.commit(ctx, c, next, epoch, step, events)
		k.writing <- served{next.Number(), time.Since(start).Seconds(), time.Since(ended).Seconds(), err}
	}()
	return nil
}

func (k *keeper) commit(ctx context.Context, c caller, next *ckpt.Next, epoch int, step uint64, events int) error {
	replies, err := callEach[psmsg.SaveReply](ctx, c, psmsg.MethodCutParts, struct{}{})
	err = errors.Join(err, k.endCut(ctx, c))
	var m ckpt.Manifest
	if err == nil {
		m, err = k.w.manifest(epoch, replies)
	}
	if err == nil {
		m.Step, m.Lifecycle = int64(step), nil // weights are as they are
		m.Position, err = json.Marshal(servingMark{events})
	}
	if err != nil {
		return errors.Join(err, next.Abort())
	}
	_, err = next.Commit(ctx, m)
	return err
}

// endCut ends a cut that counts for no checkpoint.
func (k *keeper) endCut(ctx context.Context, c caller) error {
	_, err := callEach[struct{}](ctx, c, psmsg.MethodCutDone, psmsg.CutDoneRequest{})
	return err
}

// endSave waits for the save for serving under way, and is what it came to.
func (k *keeper) endSave(ctx context.Context) ([]accessor.Event, error) {
	if k.writing == nil {
		return nil, nil
	}
	at := &k.w.pos.Life
	o, err := await(ctx, k.w, k.writing)
	if err != nil {
		return nil, err
	}
	k.writing = nil
	delta := at.OpenDelta
	at.Open, at.OpenDelta = 0, false
	if o.err != nil {
		k.sum.Failed++
		k.sum.LastFailure = o.err.Error()
		if !delta || errors.Is(o.err, ckpt.ErrNoBase) || isBaseNeeded(o.err) {
			at.Chain = 0
		}
		k.w.rank.emit(Event{Warning: fmt.Sprintf("a save for serving in %s failed, the next one has its rows too: %v", k.sum.Location, o.err)})
		return []accessor.Event{{Kind: accessor.Failed}}, nil
	}
	if delta {
		k.sum.Deltas++
		at.Chain++
	} else {
		k.sum.Bases++
		at.Chain = 1
	}
	at.Saved, k.sum.Newest, k.sum.LastFailure = o.number, o.number, ""
	k.sum.WriteSeconds = max(k.sum.WriteSeconds, o.seconds)
	if o.latency > 0 { // this job's
		k.sum.LatencySeconds, k.sum.LastLatencySeconds = max(k.sum.LatencySeconds, o.latency), o.latency
	}
	return []accessor.Event{{Kind: accessor.Saved}}, nil
}

// count has the servers count their rows by score, beside training.
func (k *keeper) count(ctx context.Context) error {
	if err := k.alone(ctx); err != nil {
		return err
	}
	k.w.pos.Life.Begun = k.w.pos.Steps
	c := k.w.client.Caller()
	if _, err := callEach[struct{}](ctx, c, psmsg.MethodCut, psmsg.CutRequest{Step: k.w.clock, Scores: true}); err != nil {
		return errors.Join(err, k.endCut(ctx, c))
	}
	k.counted = make(chan counted, 1)
	id, capacity := k.w.spec.ID, k.capacity()
	go func() {
		replies, err := callEach[psmsg.SaveReply](ctx, c, psmsg.MethodCutParts, struct{}{})
		err = errors.Join(err, k.endCut(ctx, c))
		var all accessor.Scores
		for _, r := range replies {
			if s := r.Scores[id]; s != nil {
				all.Merge(s)
			}
		}
		k.counted <- counted{all.Keep(capacity), err}
	}()
	return nil
}

// happen has events happen at every server between this step and the one before. Where
// the job stands behind them, but for what follows from the answer, is set by then.
func (k *keeper) happen(ctx context.Context, events ...accessor.Event) error {
	at := &k.w.pos.Life
	card := lifeCard{From: at.Events, Events: accessor.FormatEvents(events...), Clock: k.w.clock}
	at.Events += len(events)
	if err := k.writeDown(ctx, card); err != nil {
		return err
	}
	return k.tell(ctx, &card)
}

// tell says it to the servers; to one that has heard it, it says nothing new.
func (k *keeper) tell(ctx context.Context, card *lifeCard) error {
	req := psmsg.HappenRequest{Table: k.w.spec.ID, Step: card.Clock, From: card.From, Events: card.Events}
	for i := range k.w.client.Servers() {
		var rep psmsg.HappenReply
		if err := k.w.client.CallAgain(ctx, i, psmsg.MethodHappen, req, &rep); err != nil {
			return err
		}
		if want := k.w.pos.Life.Events; rep.Len != want || rep.Missing != "" {
			return fmt.Errorf("train: server %d has had %d events and then %q, want %d: another job uses it", i, rep.Len, rep.Missing, want)
		}
	}
	return nil
}

// finish ends what is under way when there is nothing left to train.
func (k *keeper) finish(ctx context.Context) error {
	if k == nil {
		return nil
	}
	if err := k.inherit(ctx); err != nil {
		return err
	}
	if k.w.pos.Life.After > 0 { // of a process before this one
		if err := k.finishDay(ctx); err != nil {
			return err
		}
	}
	events, err := k.endSave(ctx)
	if err != nil || len(events) == 0 {
		return err
	}
	return k.happen(ctx, events...)
}

func (k *keeper) close() error {
	if k == nil {
		return nil
	}
	if k.writing != nil {
		<-k.writing
	}
	if k.counted != nil {
		<-k.counted
	}
	if k.h == nil {
		return nil
	}
	return k.h.Close()
}
