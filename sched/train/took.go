package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/sched/coord"
)

// took are the takeovers of a member's number, of which the last led to this process. They
// stay at the coordinator for who takes it over next.
type took struct {
	Takeovers []Takeover `json:"takeovers"`
	// Generation is of the process: one that another has replaced writes nothing more.
	Generation int `json:"generation"`
	// lost says whether a server has had nothing to answer this process's first pulls with
	// as it answered those of the one before.
	lost func() bool
}

func tookKey(member int) string { return fmt.Sprintf("took/%d", member) }

// readTook has those of the processes before.
func readTook(ctx context.Context, c coord.Coordinator, member int) (t took, err error) {
	kv, err := c.Get(ctx, tookKey(member))
	if errors.Is(err, coord.ErrNotFound) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(kv.Value, &t); err != nil {
		return t, fmt.Errorf("train: the takeovers of member %d are not understood: %w", member, err)
	}
	return t, nil
}

// write has them stay.
func (t *took) write(ctx context.Context, c coord.Coordinator, member int) error {
	return putNewest(ctx, c, tookKey(member), t.Generation, t)
}

// takes adds the takeover that has led to this process to those before it.
func (w *worker) takes(ctx context.Context, t Takeover, lost func() bool) (err error) {
	if w.took, err = readTook(ctx, w.rank.Coord, w.rank.Index); err != nil {
		return err
	}
	w.took.Generation, w.took.lost = w.rank.Generation, lost
	w.took.Takeovers = append(w.took.Takeovers, t)
	w.owns = func() error {
		if !w.learns() {
			return nil
		}
		return w.took.write(ctx, w.rank.Coord, w.rank.Index)
	}
	return w.took.write(ctx, w.rank.Coord, w.rank.Index)
}

// learns says whether the takeover turned out not to be exact since it was last asked: where
// a group changed its head before this process's first step, the new head may have had
// nothing to answer it with as before.
func (w *worker) learns() bool {
	n := len(w.took.Takeovers)
	if n == 0 || !w.job.holdsSteps() || !w.took.Takeovers[n-1].Exact || !w.took.lost() {
		return false
	}
	w.took.Takeovers[n-1].Exact = false
	w.rank.emit(Event{Warning: w.took.Takeovers[n-1].String()})
	return true
}

// own comes before each push. What is learned of the takeover has been learned by the first:
// it is written down ahead of that, since a process that goes on after it finds the step at
// the servers and no sign of what it was computed from.
func (w *worker) own() error {
	own := w.owns
	if own == nil {
		return nil
	}
	w.owns = nil
	return own()
}

// takeovers are those that have led to this process.
func (w *worker) takeovers() []Takeover {
	w.learns()
	return w.took.Takeovers
}
