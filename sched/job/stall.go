package job

import (
	"context"

	"psrt/sched/coord/slow"
	"psrt/sched/stall"
	"psrt/sched/train"
)

// stallWatch begins to tell what the rank waits for too long, its coordinator
// included; nil where nobody wants to know.
func stallWatch(ctx context.Context, cfg *RankConfig, job *train.Job) *stall.Watch {
	say := cfg.Events
	if say == nil {
		say = func(train.Event) {}
	}
	w := stall.New(stall.Config{Rank: nameIn(cfg.Rank, job), After: cfg.StallAfter, Say: func(line string) { say(train.Event{Stall: line}) }})
	cfg.Metrics.Stalls(w)
	cfg.Coord = slow.Watched(cfg.Coord, w)
	go w.Run(ctx)
	return w
}
