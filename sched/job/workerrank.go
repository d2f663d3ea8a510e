package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

// own claims the number of a rank that is a worker, or a dense rank, of a job that survives
// them; nil for others.
func own(ctx context.Context, cfg RankConfig, job *train.Job) (*number, error) {
	if _, serves := serverOf(cfg.Rank, job); serves || !job.Survives() {
		return nil, nil
	}
	c, err := lasting(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Events != nil {
		note := func(line string) { cfg.Events(train.Event{Note: line}) }
		if err := noteHolder(ctx, c, job, cfg.Rank-job.Servers, note); err != nil {
			return nil, err
		}
	}
	// A dead process's lease has ended before, also where the store was away for a while.
	patience := min(cfg.JoinTimeout, max(leastPatience, 2*job.Silence()))
	return claim(ctx, c, job, cfg.Rank-job.Servers, cfg.Rank, patience)
}

// leastPatience is for a worker whose number another process has that may be dead.
const leastPatience = 15 * time.Second

// noteHolder says which process has a worker's number, where one has.
func noteHolder(ctx context.Context, c coord.Coordinator, job *train.Job, worker int, note func(line string)) error {
	alive, err := aliveNow(ctx, c)
	if err != nil {
		return err
	}
	if holder, ok := alive[worker]; ok {
		note(fmt.Sprintf("worker %d is process %s: waiting until servers have missed that, or it has been silent for %v, as one does that has died; where it runs, start every rank once", worker, holder.Process, job.Silence()))
	}
	return nil
}

// replaces says whether another process had the number before.
func (n *number) replaces() bool { return n != nil && n.generation > 1 }

// runWorker is a worker's life, and that of those for whom this process goes on.
func runWorker(ctx context.Context, cfg *RankConfig, job *train.Job, rank train.Rank, n *number, cancel context.CancelCauseFunc) (*train.Result, error) {
	if n == nil {
		return train.RunWorker(ctx, job, rank)
	}
	rank.Generation = n.generation
	if job.Combines() {
		return runCompanion(ctx, cfg, job, rank, n, cancel)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go n.watch(ctx, cancel)
	a := &adopter{cfg: cfg, job: job, life: ctx, cancel: cancel, self: process(os.Getpid(), cfg.Rank), away: map[int]since{}, own: aliveKey(n.worker, n.generation)}
	var first atomic.Pointer[train.Result]
	a.run = func(ctx context.Context, n *number) error {
		other := rank
		other.Index, other.Generation, other.Metrics = n.worker, n.generation, nil
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go n.watch(ctx, cancel)
		res, err := train.RunWorker(ctx, job, other)
		n.end(err == nil)
		if n.worker == 0 && err == nil {
			first.Store(res)
		}
		if err != nil && takenOver(ctx, err) {
			return nil // somebody else goes on
		}
		return err
	}
	adopting, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.watch(adopting)
	}()
	res, err := train.RunWorker(ctx, job, rank)
	if err != nil {
		end(err)
	}
	stop()
	<-watched
	a.adopted.Wait() // they end as this process's own part did
	if r := first.Load(); r != nil {
		res = r // the first worker's has all figures
	}
	return res, err
}

// runCompanion is the life of a worker whose host's pull and push as one, and the lives
// after it where another of them dies. Nobody else goes on for it in its own process.
func runCompanion(ctx context.Context, cfg *RankConfig, job *train.Job, rank train.Rank, n *number, cancel context.CancelCauseFunc) (res *train.Result, err error) {
	rank.Legacy = &train.Legacy{}
	defer func() { err = errors.Join(err, rank.Legacy.Close()) }()
	for {
		watching, stop := context.WithCancel(ctx)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			n.watch(watching, cancel)
		}()
		res, err := train.RunWorker(ctx, job, rank)
		stop()
		<-watched
		var again *train.BeginAgain
		if !errors.As(err, &again) || ctx.Err() != nil {
			return res, err
		}
		if err = n.again(ctx, job, cfg.Rank); err != nil {
			return nil, err
		}
		rank.Generation, rank.BeganAgain = n.generation, true
	}
}

// runDense is a dense rank's life.
func runDense(ctx context.Context, _ *RankConfig, job *train.Job, rank train.Rank, n *number, cancel context.CancelCauseFunc) (*train.Result, error) {
	if n != nil {
		rank.Generation = n.generation
		watching, stop := context.WithCancel(ctx)
		defer stop()
		go n.watch(watching, cancel)
	}
	return nil, train.RunDense(ctx, job, rank)
}

// takenOver says whether a worker ended because another process has its number.
func takenOver(ctx context.Context, err error) bool {
	var t *psmsg.TakenOverError
	return errors.As(context.Cause(ctx), &t) || errors.Is(err, client.ErrTakenOver) || psmsg.IsTakenOver(err)
}
