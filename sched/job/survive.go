package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"psrt/sched/coord"
	"psrt/sched/launch"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/train"
	"psrt/tiers/ckpt"
)

// A server that dies soon after it was started is started again later each time.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	steadyFor  = time.Minute // and one that lived so long, at once
)

// maxEarlyRestarts bounds the restarts of a server before there is a shard map: one that dies each time
// would be restarted for ever.
const maxEarlyRestarts = 3

// storeTimeout bounds what the launcher asks the store about a death: the others do
// not wait for its answer.
const storeTimeout = 2 * time.Second

// deaths says what follows from the death of a rank.
func (l *launcher) deaths(ctx context.Context) func(*launch.Death) launch.Verdict {
	first := time.Now()
	again := map[int]*restarts{}
	return func(d *launch.Death) launch.Verdict {
		number, serves := l.serverOf(d.Rank)
		if !serves && l.job.Survives() {
			if again[d.Rank] == nil {
				again[d.Rank] = &restarts{began: first}
			}
			return l.workerDied(ctx, d, again[d.Rank])
		}
		said := l.said(d.Rank)
		// One that has served and finds its port taken or a file changed is as good as dead.
		badStart := said != nil && said.BadInput && l.started(d.Rank) == 0
		switch {
		case !serves || !l.job.Chained() || badStart && number < l.job.Servers:
			return launch.Verdict{End: d}
		case badStart && !l.takesPart(ctx, number):
			return l.refuse(ctx, d, number)
		}
		if again[d.Rank] == nil {
			again[d.Rank] = &restarts{began: first}
		}
		return l.serverDied(ctx, d, number, again[d.Rank])
	}
}

// takesPart says whether a server has groups, or was to get one: that it ends is then
// the end of replicas, whatever it says of its input.
func (l *launcher) takesPart(ctx context.Context, number int) bool {
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	kv, err := l.store.Get(asking, replica.KeyMap)
	if err != nil {
		return false
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	return err == nil && hasPart(m, number)
}

// refuse ends a server alone that was asked for while the job ran, and could not begin:
// the job had no need of it before. Who asked reads why.
func (l *launcher) refuse(ctx context.Context, d *launch.Death, number int) launch.Verdict {
	why := l.why(d)
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	// It may have registered: nobody is to give it a group now.
	if _, err := l.store.Delete(asking, replica.ServerKey(number)); ignore(err, coord.ErrNotFound) != nil {
		why += fmt.Sprintf(" (and its entry is not taken away: %v)", err)
	}
	if _, err := l.store.Put(asking, addedPrefix+strconv.Itoa(number), []byte(refusedPrefix+why), 0); err != nil {
		why += fmt.Sprintf(" (and who asked for it is not told: %v)", err)
	}
	l.tell(fmt.Sprintf("%s; the job goes on without it", why))
	l.mu.Lock()
	delete(l.failures, d.Rank)
	l.mu.Unlock()
	return launch.Verdict{}
}

// serverDied starts a server again as long as each group has a member left.
func (l *launcher) serverDied(ctx context.Context, d *launch.Death, number int, r *restarts) launch.Verdict {
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	groups, err := l.bury(asking, number)
	switch {
	case errors.Is(err, errOver):
		return launch.Verdict{}
	case errors.Is(err, coord.ErrNotFound): // there is no map as yet: no server has anything
		if l.said(d.Rank) != nil || l.started(d.Rank) == maxEarlyRestarts {
			return launch.Verdict{End: d} // it ended by itself, or would do so again
		}
	case len(groups) > 0:
		return launch.Verdict{End: &LostError{Death: d, Why: l.why(d), Groups: groups, Replicas: max(1, l.job.Replicas), Saved: l.lastSaved(ctx)}}
	}
	ending := l.ending != nil && l.ending()
	what := "; its groups go on with their other replicas, and it is started again"
	switch {
	case ending:
		what = "; its groups go on with their other replicas, until the end"
	case errors.Is(err, coord.ErrNotFound):
		what = ", before training had begun: it is started again"
	}
	l.tell(l.why(d) + what)
	l.mu.Lock()
	delete(l.failures, d.Rank)
	l.starts[d.Rank]++ // bury takes it for dead from now on
	l.mu.Unlock()
	if ending {
		return launch.Verdict{}
	}
	next := l.rank(d.Rank)
	return launch.Verdict{Again: &next, Pause: r.pause(time.Now())}
}

// restarts are those of one rank.
type restarts struct {
	began time.Time // the last one
	next  time.Duration
}

// pause is how long to wait before another.
func (r *restarts) pause(now time.Time) time.Duration {
	if now.Sub(r.began) > steadyFor {
		r.next = 0
	}
	p := r.next
	r.next = min(max(firstPause, 2*p), lastPause)
	r.began = now.Add(p)
	return p
}

// errOver: the job is done, and nobody needs servers any more.
var errOver = errors.New("job: the workers are done")

// bury takes a dead server out of the store's list, so that the others need not find
// out, and returns the groups that have no living member.
func (l *launcher) bury(ctx context.Context, number int) (orphans []int, err error) {
	if _, err := l.store.Get(ctx, train.KeyDone); err == nil {
		return nil, errOver
	}
	if _, err := l.store.Delete(ctx, replica.ServerKey(number)); err != nil && !errors.Is(err, coord.ErrNotFound) {
		return nil, err
	}
	kv, err := l.store.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil, err
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		return nil, err
	}
	listed, err := registered(ctx, l.store)
	if err != nil {
		return nil, err
	}
	return deserted(m, func(n place.Node) bool {
		i := slices.IndexFunc(listed, func(r replica.Registration) bool { return r.ID == n.Server })
		if i < 0 { // it may have been away from the store for long
			return n.Server != number && l.started(rankOf(n.Server, l.job)) == 0
		}
		return listed[i].Gen == n.Gen
	}), nil
}

// deserted are the groups of which no member lives.
func deserted(m *place.Chains, lives func(place.Node) bool) (groups []int) {
	for g := range m.Groups {
		if !slices.ContainsFunc(m.Groups[g].Chain, func(x place.Member) bool { return lives(m.Node(x.Server)) }) {
			groups = append(groups, g)
		}
	}
	return groups
}

func (l *launcher) serverOf(rank int) (number int, serves bool) { return serverOf(rank, l.job) }

func (l *launcher) said(rank int) *train.Failure {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures[rank]
}

// why is how a rank ended, in its own words where it had some.
func (l *launcher) why(d *launch.Death) string {
	said := l.said(d.Rank)
	switch {
	case said != nil:
		return fmt.Sprintf("%s ended: %s", d.Name, said.Message)
	case d.Signal == 0 && len(d.Tail) > 0: // a panic, of which the beginning tells most
		return fmt.Sprintf("%v: %s", d, joinLines(d.Tail))
	}
	return d.Error()
}

func (l *launcher) tell(warning string) {
	if l.cfg.Events != nil {
		l.cfg.Events(train.Event{Warning: warning})
	}
}

// LostError is the end of a job that has lost rows.
type LostError struct {
	Death    *launch.Death
	Why      string
	Groups   []int
	Replicas int
	Saved    string // what is left of the job
}

func (e *LostError) Error() string {
	which := "groups"
	if len(e.Groups) == 1 {
		which = "group"
	}
	more := "servers with other replicas of them had died before, and no new replica was whole yet: more --replicas survive more deaths at a time"
	if e.Replicas == 1 {
		more = "there was one replica: --replicas 2 survives the death of a server"
	}
	return fmt.Sprintf("%s; nobody has the rows of %s %s any more (%s); %s", e.Why, which, numbers(e.Groups), more, e.Saved)
}

func (e *LostError) Unwrap() error { return e.Death }

// numbers lists them, the first ones where they are many.
func numbers(all []int) string {
	const most = 8
	var s []string
	for _, n := range all[:min(most, len(all))] {
		s = append(s, fmt.Sprint(n))
	}
	if n := len(all) - most; n > 0 {
		s = append(s, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(s, ", ")
}

// lastSaved says what a job can go on from.
func (l *launcher) lastSaved(ctx context.Context) string {
	j := l.job
	switch {
	case l.saved != "":
		return l.saved
	case j.Checkpoint == nil:
		return "nothing was saved: --checkpoint DIR keeps snapshots to go on from"
	}
	asking, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	m, err := ckpt.OpenTrainable(asking, j.Checkpoint.Dir)
	if err != nil {
		return fmt.Sprintf("there is no checkpoint in %s yet", j.Checkpoint.Dir)
	}
	return fmt.Sprintf("go on with --resume from checkpoint %d in %s, of step %d", m.Number, j.Checkpoint.Dir, m.Step)
}
