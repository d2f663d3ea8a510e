package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"psrt/sched/coord"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// serverOf is the number of the server that a rank is, and rankOf the other way
// around: servers that come later have ranks after the workers', and the numbers
// after the first servers'.
func serverOf(rank int, j *train.Job) (number int, serves bool) {
	switch {
	case rank < j.Servers:
		return rank, true
	case rank < j.World():
		return 0, false
	}
	return rank - j.Members(), true
}

func rankOf(server int, j *train.Job) int {
	if server < j.Servers {
		return server
	}
	return server + j.Members()
}

// nameIn is how people know a rank of a job.
func nameIn(rank int, j *train.Job) string {
	if n, serves := serverOf(rank, j); serves {
		return fmt.Sprintf("server %d", n)
	}
	return j.MemberName(rank - j.Servers)
}

// added starts the servers that are asked for while the job runs.
func (l *launcher) added(ctx context.Context, more chan<- launch.Later) {
	known := map[string]bool{}
	for {
		err := l.addAll(ctx, more, known)
		if errors.Is(err, coord.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settleEvery): // it looks again from the beginning
		}
	}
}

func (l *launcher) addAll(ctx context.Context, more chan<- launch.Later, known map[string]bool) error {
	past, rev, err := l.store.List(ctx, addedPrefix)
	if err != nil {
		return err
	}
	for _, kv := range past {
		l.add(ctx, more, known, kv)
	}
	w, err := l.store.Watch(ctx, addedPrefix, rev+1)
	if err != nil {
		return err
	}
	defer w.Close()
	for e := range w.Events() {
		if !e.Deleted {
			l.add(ctx, more, known, e.KV)
		}
	}
	return w.Err()
}

func (l *launcher) add(ctx context.Context, more chan<- launch.Later, known map[string]bool, kv coord.KV) {
	number, err := strconv.Atoi(strings.TrimPrefix(kv.Key, addedPrefix))
	by, _, _ := strings.Cut(string(kv.Value), " ")
	if err != nil || known[kv.Key] || by != byLauncher {
		return
	}
	known[kv.Key] = true
	rank := rankOf(number, l.job)
	select {
	case more <- launch.Later{Index: rank, Rank: l.rank(rank)}:
		if l.cfg.Events != nil {
			l.cfg.Events(train.Event{Note: fmt.Sprintf("server %d is started", number)})
		}
	case <-ctx.Done():
	}
}
