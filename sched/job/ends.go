package job

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"psrt/sched/coord"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/train"
)

// endKey is put by a rank that needs the coordinator no more.
func endKey(rank int) string { return endPrefix + strconv.Itoa(rank) }

const endPrefix = "end/"

// lingerFor bounds how long those who keep the coordinator wait for ranks that are
// ending; abortedFor where the job was aborted and some may never have begun.
const (
	lingerFor  = 5 * time.Second
	abortedFor = 2 * time.Second
	lingerLook = 200 * time.Millisecond
)

// awaitEnds waits until every rank has said that it needs the coordinator no more, or
// is dead. err is what became of this rank.
func awaitEnds(c coord.Coordinator, j *train.Job, err error) (all bool) {
	limit := lingerFor
	if err != nil {
		limit = abortedFor
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, rev, err := c.List(ctx, endPrefix)
	if err != nil {
		return false
	}
	w, err := c.Watch(ctx, endPrefix, rev+1)
	if err != nil {
		return false
	}
	defer w.Close()
	for events := w.Events(); ; {
		if left, err := leftOf(ctx, c, j); err != nil || left == 0 {
			return err == nil
		}
		select {
		case _, ok := <-events:
			if !ok {
				events = nil
			}
		case <-time.After(lingerLook): // of the dead nobody says so
		case <-ctx.Done():
			return false
		}
	}
}

// leftOf counts the ranks that still need the coordinator.
func leftOf(ctx context.Context, c coord.Coordinator, j *train.Job) (left int, err error) {
	ended := map[int]struct{}{}
	kvs, _, err := c.List(ctx, endPrefix)
	if err != nil {
		return 0, err
	}
	for _, kv := range kvs {
		if r, err := strconv.Atoi(strings.TrimPrefix(kv.Key, endPrefix)); err == nil {
			ended[r] = struct{}{}
		}
	}
	_, err = c.Get(ctx, train.KeyDone)
	done := err == nil
	if err != nil && !errors.Is(err, coord.ErrNotFound) {
		return 0, err
	}
	for r := range j.World() {
		if _, ok := ended[r]; ok {
			continue
		}
		dead, err := false, error(nil)
		if done {
			dead, err = gone(ctx, c, j, r)
		}
		if err != nil {
			return 0, err
		}
		if !dead {
			left++
		}
	}
	return left, nil
}

// gone says of a rank that has not said that it ended, in a job that is done, whether it
// never will.
func gone(ctx context.Context, c coord.Coordinator, j *train.Job, rank int) (bool, error) {
	number, serves := serverOf(rank, j)
	switch {
	case serves && j.Chained():
		if _, err := c.Get(ctx, replica.ServerKey(number)); err != nil {
			return errors.Is(err, coord.ErrNotFound), ignore(err, coord.ErrNotFound)
		}
		// One that was killed is listed until its lease ends.
		kv, err := c.Get(ctx, replica.KeyMap)
		if err != nil {
			return false, ignore(err, coord.ErrNotFound)
		}
		m, err := place.Decode(kv.Value, uint64(kv.Revision))
		return err == nil && !hasPart(m, number), err
	case !serves && j.Survives():
		card, _, err := readNumber(ctx, c, rank-j.Servers)
		return card.Done, err
	}
	return false, nil
}

// hasPart says whether a map gives a server a group, as a member or to join.
func hasPart(m *place.Chains, server int) bool {
	return slices.ContainsFunc(m.Groups, func(g place.Group) bool {
		return g.Joiner != nil && g.Joiner.Server == server || slices.ContainsFunc(g.Chain, func(x place.Member) bool { return x.Server == server })
	})
}

// ignore is err, unless it is that one.
func ignore(err, that error) error {
	if errors.Is(err, that) {
		return nil
	}
	return err
}
