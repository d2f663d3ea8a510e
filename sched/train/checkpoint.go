package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/sched/client"
	"psrt/sched/metrics"
	"psrt/sched/psmsg"
	"psrt/tiers/ckpt"
)

// Checkpoint says where and how often a job's state is saved while it runs.
type Checkpoint struct {
	Dir string `json:"dir"` // or another location that tiers/ckpt knows
	// Steps or Seconds are between two; the other is 0.
	Steps   int     `json:"steps,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
	// Resume goes on from the newest one, where there is one, or from number From.
	Resume bool   `json:"resume,omitempty"`
	From   uint64 `json:"from,omitempty"`
	// Deltas is how many deltas follow a base, Keep how many bases with their
	// deltas stay; 0 keeps all.
	Deltas int `json:"deltas"`
	Keep   int `json:"keep,omitempty"`
	// Compress packs blocks of the files that shrink by it: ckpt.CompressLZ4.
	Compress string `json:"compress,omitempty"`
}

// Defaults of Checkpoint.
const (
	CheckpointDeltas = 15
	CheckpointKeep   = 2
)

// Check refuses the number of a checkpoint in a job that does not go on from it.
func (c *Checkpoint) Check() error {
	if c != nil && c.From > 0 && !c.Resume {
		return fmt.Errorf("train: --checkpoint %s@%d names checkpoint %d, from which --resume goes on: give that, too, or a name that does not end in @%d", c.Dir, c.From, c.From, c.From)
	}
	return nil
}

func (c *Checkpoint) validate(j *Job) error {
	if err := c.Check(); err != nil {
		return err
	}
	switch {
	case c == nil:
		return nil
	case c.Dir == "":
		return errors.New("train: checkpoints without a place: give --checkpoint DIR")
	case c.Steps < 0 || c.Seconds < 0 || c.Steps > 0 && c.Seconds > 0 || c.Steps == 0 && c.Seconds == 0:
		return fmt.Errorf("train: a checkpoint every %d steps and every %g seconds: want one of them above 0", c.Steps, c.Seconds)
	case len(j.Valid) > 0 && j.Out == "" && !ckpt.IsDirectory(c.Dir):
		return fmt.Errorf("train: --valid keeps the best epoch's model beside the checkpoints, which %s cannot hold; give --out DIR, or leave --valid out", c.Dir)
	case c.Deltas < 0 || c.Keep < 0:
		return fmt.Errorf("train: %d deltas to a base, %d bases kept: want 0 or more", c.Deltas, c.Keep)
	case c.Compress != ckpt.CompressNone && c.Compress != ckpt.CompressLZ4:
		return fmt.Errorf("train: checkpoints packed by %q, want %s or nothing", c.Compress, ckpt.CompressLZ4)
	}
	return nil
}

// Checkpoints is what a job wrote of them.
type Checkpoints struct {
	Location string `json:"location"`
	Written  int    `json:"written"`
	Failed   int    `json:"failed,omitempty"`
	// LastFailure is why the last one failed; "": it did not.
	LastFailure string `json:"last_failure,omitempty"`
	Newest      uint64 `json:"newest"` // its number
	// PauseSeconds is the longest that a lane stood still for one, WriteSeconds the
	// longest from a cut to its commit.
	PauseSeconds float64 `json:"pause_s"`
	WriteSeconds float64 `json:"write_s"`
	// BeginSeconds is the longest that worker 0 waited for servers to know of one.
	BeginSeconds float64 `json:"begin_s"`
	// Steps are worker 0's while none was being written, and while one was.
	Steps StepTimes `json:"steps"`
	While StepTimes `json:"steps_while"`
	// ResumedFrom is the number of the one that the job went on from, 0 for none.
	ResumedFrom uint64 `json:"resumed_from,omitempty"`
}

// saver is worker 0's: it has servers cut and write, and commits what they wrote,
// while training goes on.
type saver struct {
	w          *worker
	h          *ckpt.History
	cfg        *Checkpoint
	deltas     int           // since the base; -1: there is none that a delta could follow
	heads      []client.Head // that wrote the last one
	at         uint64
	pass       int // in which the last one was begun
	when       time.Time
	first      bool         // of the steps to be pushed is the next one: none may begin before it (see hold)
	missed     int          // that were due there, since the last one was begun
	begun      bool         // one was, ever; or it was told why none is
	running    chan outcome // of the one under way, nil if there is none
	giveUp     func()       // has servers end what they have not begun of it
	files      *Files       // that the job reads; nil: of a stream, whose log has them
	sum        Checkpoints
	unreported int    // failures since the last one that a warning named
	trouble    string // the last warning about a checkpoint that is whole
	pace       pace
	shown      *metrics.Saves
}

type outcome struct {
	number  uint64
	pause   float64
	seconds float64
	err     error
}

func newSaver(ctx context.Context, w *worker) (*saver, error) {
	h, err := ckpt.OpenHistory(ctx, w.job.Checkpoint.Dir, ckpt.HistoryOptions{Keep: w.job.Checkpoint.Keep, Run: w.runID})
	if err != nil {
		return nil, err
	}
	s := &saver{w: w, h: h, cfg: w.job.Checkpoint, deltas: -1, when: time.Now(), sum: Checkpoints{Location: w.job.Checkpoint.Dir}, shown: w.rank.Metrics.Saves()}
	if w.job.Stream == nil {
		s.files = w.files.sets()
	}
	return s, nil
}

// due says whether a checkpoint should be begun before a step.
func (s *saver) due(pos position) bool { return !s.first && s.wanted(pos) }

// wanted says whether it is time for one.
func (s *saver) wanted(pos position) bool {
	step := pos.Steps
	if s.w.job.Stream != nil && pos.Epoch != s.pass {
		return true // each pass has one at its end
	}
	if s.cfg.Steps > 0 {
		return step/uint64(s.cfg.Steps) > s.at/uint64(s.cfg.Steps) // maybe late, where it had to wait
	}
	return step > s.at && time.Since(s.when).Seconds() >= s.cfg.Seconds
}

// step is called before a step is pulled: pos is where a job would go on that
// had all before it and nothing else. It waits only for the servers' word that
// they know.
func (s *saver) step(ctx context.Context, pos position) {
	s.pace.step(pos.Step)
	defer func() { s.pace.writing = s.running != nil }()
	if s.running != nil {
		select {
		case o := <-s.running:
			s.over(o)
		default:
			return
		}
	}
	if !s.due(pos) {
		s.miss(pos)
		return
	}
	s.write(ctx, pos)
}

// write begins a checkpoint; none is under way.
func (s *saver) write(ctx context.Context, pos position) {
	s.missed, s.begun = 0, true
	s.at, s.pass, s.when = pos.Steps, pos.Epoch, time.Now()
	if err := s.begin(ctx, pos); err != nil {
		s.over(outcome{err: err})
	}
	s.sum.BeginSeconds = max(s.sum.BeginSeconds, time.Since(s.when).Seconds())
}

func (s *saver) begin(ctx context.Context, pos position) error {
	// What has changed since the last one is known to those who wrote that.
	if heads := s.w.client.Heads(); !slices.Equal(heads, s.heads) {
		s.heads, s.deltas = heads, -1
	}
	delta := s.deltas >= 0 && s.deltas < s.cfg.Deltas
	next, err := s.h.Begin(ctx, ckpt.NextOptions{Delta: delta, Compress: s.cfg.Compress})
	if delta && errors.Is(err, ckpt.ErrNoBase) {
		s.w.rank.emit(Event{Warning: fmt.Sprintf("a whole checkpoint is written in place of a change of the last one: %v", err)})
		delta = false
		next, err = s.h.Begin(ctx, ckpt.NextOptions{Compress: s.cfg.Compress})
	}
	if err != nil {
		return err
	}
	k := s.w.client.Caller()
	start := time.Now()
	order, err := s.say(ctx, next)
	if err != nil {
		return errors.Join(err, next.Abort())
	}
	_, cut := callEach[struct{}](ctx, k, psmsg.MethodCut, psmsg.CutRequest{Ticket: next.Ticket(), Step: s.w.clock, Delta: delta})
	if cut == nil && !slices.Equal(s.w.client.Heads(), s.heads) {
		cut = errors.New("train: servers have changed while it began")
	}
	s.w.unsent.ordered(order)
	s.running = make(chan outcome, 1)
	s.giveUp = func() {
		ctx, cancel := context.WithTimeout(ctx, givingUpWithin)
		defer cancel()
		_, _ = callEach[struct{}](ctx, k, psmsg.MethodCutDone, psmsg.CutDoneRequest{Untaken: true}) // whoever does not hear it is gone
	}
	go func() {
		o := outcome{number: next.Number()}
		o.pause, o.err = s.commit(ctx, k, next, pos, cut)
		o.seconds = time.Since(start).Seconds()
		s.running <- o
	}()
	if delta {
		s.deltas++
	} else {
		s.deltas = 0
	}
	return nil
}

// commit waits for the servers' parts and makes them the newest generation. Where the cut
// has failed it waits for the workers' parts nevertheless: they have been told.
func (s *saver) commit(ctx context.Context, k *client.Caller, next *ckpt.Next, pos position, cut error) (pause float64, err error) {
	var replies []psmsg.SaveReply
	if err = cut; err == nil {
		replies, err = callEach[psmsg.SaveReply](ctx, k, psmsg.MethodCutParts, struct{}{})
	}
	var m ckpt.Manifest
	if err == nil {
		m, err = s.w.manifest(pos.Epoch, replies)
	}
	if err == nil {
		m.Step, pos.Ahead = int64(pos.Steps), s.w.job.ahead(replies, s.w.carriers)
		pos.Top = s.w.job.Compress.Keeps()
		pos.Files = s.files
		m.Position, err = json.Marshal(pos)
	}
	files, unsaved := s.unsent(ctx, next.Ticket()) // of one that has failed, too: workers write theirs nevertheless
	if m.Beside = files; err == nil {
		err = unsaved
	}
	if err != nil {
		return 0, errors.Join(err, s.end(ctx, k, false), next.Abort())
	}
	for _, r := range replies {
		pause = max(pause, r.PauseSeconds)
	}
	if _, err = next.Commit(ctx, m); err != nil {
		return 0, errors.Join(err, s.end(ctx, k, false))
	}
	err = s.end(ctx, k, true)
	if s.w.job.Chained() { // a server that died meanwhile: the checkpoint is whole, and a base follows
		err = nil
	}
	return pause, err
}

func (s *saver) end(ctx context.Context, k *client.Caller, committed bool) error {
	_, err := callEach[struct{}](ctx, k, psmsg.MethodCutDone, psmsg.CutDoneRequest{Committed: committed})
	return err
}

// over notes how one ended. Training goes on without it: what it lacked is in the
// next one.
func (s *saver) over(o outcome) {
	s.running = nil
	if o.err != nil {
		s.sum.Failed++
		s.deltas = -1 // a base, whatever became of the servers' notes
		if errors.Is(o.err, context.Canceled) {
			return // the job ends
		}
		s.shown.Note(o.err)
		if s.sum.LastFailure == "" { // the first in a row
			s.w.rank.emit(Event{Warning: fmt.Sprintf("a checkpoint in %s failed, training goes on: %v", s.cfg.Dir, o.err)})
		} else {
			s.unreported++
		}
		s.sum.LastFailure = o.err.Error()
		return
	}
	s.reportFailures()
	if err := s.h.Trouble(); err != nil && err.Error() != s.trouble {
		s.trouble = err.Error()
		s.w.rank.emit(Event{Warning: fmt.Sprintf("checkpoint %d in %s is whole; %v", o.number, s.cfg.Dir, err)})
	}
	s.sum.Written++
	s.shown.Note(nil)
	s.sum.LastFailure = ""
	s.sum.Newest = o.number
	s.sum.PauseSeconds = max(s.sum.PauseSeconds, o.pause)
	s.sum.WriteSeconds = max(s.sum.WriteSeconds, o.seconds)
}

// reportFailures emits one warning for the failures that followed the first in a row: on a full disk each checkpoint fails.
func (s *saver) reportFailures() {
	if s.unreported > 0 {
		s.w.rank.emit(Event{Warning: fmt.Sprintf("%d more checkpoint(s) in %s failed, the last: %s", s.unreported, s.cfg.Dir, s.sum.LastFailure)})
	}
	s.unreported = 0
}

// settle waits for the checkpoint under way.
func (s *saver) settle() {
	if s != nil && s.running != nil {
		s.over(<-s.running)
	}
	if s != nil {
		s.tellMissed(1)
		s.reportFailures()
		s.sum.Steps, s.sum.While = s.pace.of[0].Times(), s.pace.of[1].Times()
	}
}

// givingUpWithin is for how long servers of a job that has failed are asked.
const givingUpWithin = 10 * time.Second

// close waits for the checkpoint under way where its cut is there. Whoever has failed does
// not bring the step that a cut waits for.
func (s *saver) close() error {
	if s.running != nil {
		s.giveUp()
	}
	s.settle()
	return s.h.Close()
}
