package qualify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/sched/launch"
	"psrt/sched/rendezvous"
)

// Command starts one rank on this machine: rank, world size, coordinator, token
// file and listening address are appended as flags.
type Command struct {
	Path string
	Args []string
	// Of each rank, for tests; may be nil.
	RankArgs func(rank int) []string
	Env      []string
}

// grace is how long ranks may take to end.
const grace = 2 * time.Second

// RunLocal starts the ranks as processes of this machine and directs them.
// Nothing is left behind: no process, file, socket or shared memory.
func RunLocal(ctx context.Context, ranks int, plan Plan, c Command, progress func(string)) (_ *Finding, err error) {
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	token := rendezvous.NewToken()
	tokenFile := filepath.Join(scratch.Path, "token")
	if err := os.WriteFile(tokenFile, token, 0o600); err != nil {
		return nil, err
	}
	job := Job{World: ranks, Coordinator: "unix:" + filepath.Join(scratch.Path, "director"), Token: token}
	d, err := Direct(job, plan, progress)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	d.parent = true
	// Each rank is a job of its own: that one dies must not end the others.
	// They outlive ctx until the director has said what it knows.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	for r := range ranks {
		args := append(append([]string(nil), c.Args...), "--rank", strconv.Itoa(r), "--world-size", strconv.Itoa(ranks),
			"--coordinator", job.Coordinator, "--token-file", tokenFile, "--listen", "unix:"+filepath.Join(scratch.Path, "rank-"+strconv.Itoa(r)))
		if c.RankArgs != nil {
			args = append(args, c.RankArgs(r)...)
		}
		all.Go(func() {
			err := launch.Run(life, launch.Config{
				Exe: c.Path, Grace: grace,
				Ranks: []launch.Rank{{Name: fmt.Sprintf("rank %d", r), Args: args, Env: c.Env}},
			})
			if life.Err() == nil {
				d.Ended(r, ending(r, err))
			}
		})
	}
	return d.Run(ctx)
}

// ending is how a rank's process ended, in words.
func ending(rank int, err error) string {
	var death *launch.Death
	switch {
	case err == nil:
		return fmt.Sprintf("rank %d ended", rank)
	case errors.As(err, &death) && death.Signal == 0 && len(death.Tail) > 0:
		return fmt.Sprintf("%v, saying: %s", err, strings.Join(death.Tail, "; "))
	}
	return err.Error()
}
