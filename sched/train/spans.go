package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"psrt/sched/compress/span"
	"psrt/sched/coord"
)

// With --merge-pushes auto how many steps' rows a worker sends together depends on times that
// nobody measures again. So that who goes on for it cuts the steps as it did, which servers may
// have in part, the number changes in steps alone that all numbers divide: nothing is kept then,
// neither as it was nor as it is to be. And it is written down before the first push that it
// is true of. Who goes on follows what is written, and chooses for itself only in steps of which
// no server has anything.

// spans are those of one worker, nil where nobody may go on for it, or the number is given.
// They belong to who runs the steps.
type spans struct {
	w     *worker
	ctx   context.Context // the job's
	merge merger
	fixed uint64 // the number that is given; 0: it moves
	whole uint64 // in multiples of which
	now   int    // what the client was told last
	later uint64 // the step from which on it may move, where the coordinator did not answer
	card  spanCard
}

// merger is the client.
type merger interface {
	Finds() int
	Merge(steps int)
}

// spanCard is what is written down.
type spanCard struct {
	// Generation is of the process: one that another has replaced writes nothing more.
	Generation int        `json:"generation"`
	Moves      []spanMove `json:"moves"` // the oldest first
}

// spanMove is a number of steps, and the first step that it is true of.
type spanMove struct {
	From  uint64 `json:"from"`
	Steps int    `json:"steps"`
}

// keptMoves is how many of them are kept: lanes are apart by fewer steps than those between
// three that may be next to each other.
const keptMoves = 4

const (
	spanWait  = 100 * time.Millisecond // for a coordinator that may be away
	spanLater = 64                     // steps until it is asked again
)

func spanKey(worker int) string { return fmt.Sprintf("span/%d", worker) }

func newSpans(ctx context.Context, w *worker) *spans {
	c := w.job.Compress
	if c.Merge < 2 || !w.job.evenPushes() {
		return nil
	}
	s := &spans{w: w, ctx: ctx, merge: w.client, whole: uint64(span.Whole(c.Merge)), now: 1, card: spanCard{w.rank.Generation, []spanMove{{0, 1}}}}
	if !c.MergeAuto {
		s.fixed = uint64(c.Merge)
	}
	return s
}

// inherit goes on with what the process before has written down, which writes no more after it.
// Preconditions: servers take no more pushes of that one.
func (s *spans) inherit(ctx context.Context) error {
	if s == nil || s.fixed > 0 {
		return nil
	}
	key := spanKey(s.w.rank.Index)
	kv, err := s.w.rank.Coord.Get(ctx, key)
	if err == nil {
		err = json.Unmarshal(kv.Value, &s.card)
	}
	if errors.Is(err, coord.ErrNotFound) {
		err = nil
	}
	if err == nil && len(s.card.Moves) == 0 {
		err = errors.New("it has no number")
	}
	if err != nil {
		return fmt.Errorf("train: how many steps worker %d had merged: %w", s.w.rank.Index, err)
	}
	s.card.Generation = s.w.rank.Generation
	return putNewest(ctx, s.w.rank.Coord, key, s.card.Generation, s.card)
}

// of is the number of which a step is.
func (s *spans) of(step uint64) (uint64, error) {
	if s.fixed > 0 {
		return s.fixed, nil
	}
	for _, m := range slices.Backward(s.card.Moves) {
		if m.From <= step {
			return uint64(m.Steps), nil
		}
	}
	return 0, fmt.Errorf("train: how many steps worker %d had merged in step %d is not known, only from step %d on: please report this", s.w.rank.Index, step, s.card.Moves[0].From)
}

// settle comes before the first push of a step.
func (s *spans) settle(clock uint64) error {
	if s == nil || s.fixed > 0 {
		return nil
	}
	if clock%s.whole == 0 && clock >= s.later && clock > s.card.Moves[len(s.card.Moves)-1].From && (s.w.inherited == nil || clock >= s.w.inherited.fresh) {
		if err := s.move(clock); err != nil {
			return err
		}
	}
	n, err := s.of(clock)
	if err == nil && int(n) != s.now {
		s.now = int(n)
		s.merge.Merge(s.now)
	}
	return err
}

// move has the number be another one from step clock on, if it is to be. Where the coordinator
// is away it stays what it was. One that goes away in between is waited for: nobody could say
// which number it knows.
func (s *spans) move(clock uint64) error {
	want, last := s.merge.Finds(), s.card.Moves[len(s.card.Moves)-1]
	if want == last.Steps {
		return nil
	}
	key := spanKey(s.w.rank.Index)
	short, cancel := context.WithTimeout(s.ctx, spanWait)
	_, err := s.w.rank.Coord.Get(short, key)
	cancel()
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		s.later = clock + spanLater
		return nil
	}
	s.card.Moves = append(s.card.Moves, spanMove{clock, want})
	s.card.Moves = s.card.Moves[max(0, len(s.card.Moves)-keptMoves):]
	for {
		err := putNewest(s.ctx, s.w.rank.Coord, key, s.card.Generation, s.card)
		if !again(s.ctx, err) {
			return err
		}
	}
}
