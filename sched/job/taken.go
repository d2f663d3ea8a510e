package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"psrt/sched/coord"
	"psrt/sched/replica"
	"psrt/sched/train"
)

// processPrefix has, by rank, who was started as it, in a job in which nobody takes
// another's place.
const processPrefix = "process/"

// takenTries and takenPause are how long a rank that is started anew waits for one that
// may be ending.
const (
	takenTries = 3
	takenPause = time.Second
)

// processCard is under it.
type processCard struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Life uint64 `json:"life"` // drawn anew
}

func isTaken(rank int, job *train.Job, pid int, host, at string) error {
	return badInput("job: rank %d (%s) is process %d on %s%s, which runs: start every rank once, or end that one first", rank, nameIn(rank, job), pid, host, at)
}

// alone refuses a second process of a rank whose first one lives. A worker that others may
// go on for finds that out as it claims its number. Called again where a job's store is
// another one than that by which its ranks came: who comes later asks that.
func alone(ctx context.Context, cfg *RankConfig, job *train.Job, late bool) error {
	number, serves := serverOf(cfg.Rank, job)
	switch {
	case !cfg.Seen: // psrt itself starts no rank twice
		return nil
	case late && serves:
		return aloneServing(ctx, cfg, job, number)
	case job.Chained() && serves || job.Survives() || cfg.Store.Durable(): // an etcd may remember a former job's until rank 0 clears it
		return nil
	}
	if cfg.card == (processCard{}) {
		host, _ := os.Hostname()
		cfg.card = processCard{host, os.Getpid(), rand.Uint64()}
	}
	own, err := json.Marshal(cfg.card)
	if err != nil {
		return err
	}
	key := processPrefix + strconv.Itoa(cfg.Rank)
	if _, err = coord.PutNew(ctx, cfg.Coord, key, own, 0); !errors.Is(err, coord.ErrConflict) {
		return err
	}
	kv, err := cfg.Coord.Get(ctx, key)
	if err != nil {
		return err
	}
	var first processCard
	if err := json.Unmarshal(kv.Value, &first); err != nil {
		return fmt.Errorf("job: %s is not understood: %w; run the same psrt everywhere", key, err)
	}
	if first == cfg.card {
		return nil
	}
	return isTaken(cfg.Rank, job, first.PID, first.Host, "")
}

// aloneServing asks a server that is registered with this one's number whether it lives: a
// registration outlives its server by seconds.
func aloneServing(ctx context.Context, cfg *RankConfig, job *train.Job, number int) error {
	lives, end, err := knocker(cfg.Token)
	if err != nil {
		return err
	}
	defer end()
	for try := range takenTries {
		kv, err := cfg.Coord.Get(ctx, replica.ServerKey(number))
		if err != nil {
			return ignore(err, coord.ErrNotFound)
		}
		r, err := replica.DecodeRegistration(kv.Key, kv.Value)
		if err != nil || !lives(ctx, r.Addr) {
			return nil // the next one's to judge
		}
		taken := isTaken(cfg.Rank, job, r.PID, r.Host, ", at "+r.Addr)
		if try == takenTries-1 {
			return taken
		}
		if try == 0 && cfg.Events != nil {
			cfg.Events(train.Event{Note: taken.Error() + fmt.Sprintf("; waiting %v for its end", (takenTries-1)*takenPause)})
		}
		pause(ctx, takenPause)
	}
	return nil
}
