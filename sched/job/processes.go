package job

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"psrt/sched/launch"
	"psrt/sched/train"
)

// ProcessConfig says how to start the ranks of a job on this machine.
type ProcessConfig struct {
	// Exe and Args start one rank, with the transport it shall use; rank, world size, coordinator and token
	// file are appended as flags.
	Exe    string
	Args   []string
	Env    []string
	Events func(train.Event)
	Log    func(rank string, line string)
	// Store is where the job's keys are kept; Dir is filled in.
	Store StoreConfig
	// Metrics is told, before the ranks begin, the unix sockets on which each
	// will show its metrics. May be nil.
	Metrics func(sockets []string)
}

// EnvLaunched is set for ranks that RunProcesses starts: they report on
// descriptor 3 and leave the terminal to it.
const EnvLaunched = "PSRT_LAUNCHED"

// tokenBytes is the length of a job's token.
const tokenBytes = 32

// RunProcesses starts every rank as a process, and returns worker 0's result.
// Nothing is left behind: no process, file, socket or shared memory. If this
// process is killed, its directory is left to the next RunProcesses.
func RunProcesses(ctx context.Context, j *train.Job, cfg ProcessConfig) (*train.Result, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	dir := scratch.Path
	if j.Scratch == "" {
		j.Scratch = filepath.Join(dir, "best")
	}
	token := make([]byte, tokenBytes)
	rand.Read(token)
	tokenFile := filepath.Join(dir, "token")
	if err := os.WriteFile(tokenFile, token, 0o600); err != nil {
		return nil, err
	}
	cfg.Store.Dir = dir
	socket := filepath.Join(dir, "coordinator")
	coordinator, err := HostCoordinator(ctx, "unix:"+socket, token, j, cfg.Store)
	if err != nil {
		return nil, err
	}
	defer coordinator.Close()

	world := j.Servers + j.Workers
	lc := launch.Config{Exe: cfg.Exe}
	var sockets []string
	for r := range world {
		sockets = append(sockets, metricsSocket(dir, r))
		args := append(append([]string(nil), cfg.Args...),
			"--rank", strconv.Itoa(r), "--world-size", strconv.Itoa(world),
			"--coordinator", "unix:"+socket, "--token-file", tokenFile,
			"--listen", "unix:"+filepath.Join(dir, "rank-"+strconv.Itoa(r)), "--metrics", "unix:"+sockets[r])
		lc.Ranks = append(lc.Ranks, launch.Rank{Name: name(r, j.Servers), Args: args, Env: append([]string{EnvLaunched + "=1"}, cfg.Env...)})
	}
	if cfg.Metrics != nil {
		cfg.Metrics(sockets)
	}
	var result *train.Result
	failures := make([]*train.Failure, world)
	lc.OnEvent = func(rank int, line []byte) {
		var e train.Event
		if json.Unmarshal(bytes.TrimSpace(line), &e) != nil {
			return
		}
		switch {
		case e.Failure != nil:
			failures[rank] = e.Failure
		case e.Result != nil:
			result = e.Result
		case cfg.Events != nil:
			cfg.Events(e)
		}
	}
	if cfg.Log != nil {
		lc.OnLog = func(rank int, line string) { cfg.Log(name(rank, j.Servers), line) }
	}
	err = launch.Run(ctx, lc)
	if err != nil {
		return nil, explain(err, failures, j.Servers)
	}
	if result == nil {
		return nil, errors.New("job: every rank ended well but none reported a result: please report this")
	}
	return result, nil
}

// RankFailure is a job's end because a rank could not go on.
type RankFailure struct {
	Rank string
	train.Failure
}

func (f *RankFailure) Error() string { return f.Rank + ": " + f.Message }

// BadInput reports whether the user's input is at fault.
func (f *RankFailure) BadInput() bool { return f.Failure.BadInput }

// explain prefers what the ranks said to how they exited: the first failure
// that is not another's consequence. A rank that a signal took said nothing,
// and is the cause whatever the others say.
func explain(err error, failures []*train.Failure, servers int) error {
	var death *launch.Death
	if !errors.As(err, &death) {
		return err
	}
	if death.Signal == 0 {
		for r, f := range failures {
			if f != nil && f.BadInput {
				return &RankFailure{Rank: name(r, servers), Failure: *f}
			}
		}
		for r, f := range failures {
			if f != nil && !f.Secondary {
				return &RankFailure{Rank: name(r, servers), Failure: *f}
			}
		}
	}
	if len(death.Tail) > 0 {
		return fmt.Errorf("%w; its last words:\n  %s", death, joinLines(death.Tail))
	}
	return death
}

func joinLines(lines []string) string {
	var b bytes.Buffer
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\n  ")
		}
		b.WriteString(l)
	}
	return b.String()
}

// metricsSocket is where a rank of the job with that directory shows its
// metrics: to the launcher, and to psrt status and top.
func metricsSocket(dir string, rank int) string {
	return filepath.Join(dir, metricsName+strconv.Itoa(rank))
}

const metricsName = "metrics-"

// MetricsSockets are those in a running launcher's directory.
func MetricsSockets(dir string) (sockets []string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the launcher has ended meanwhile
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), metricsName) {
			sockets = append(sockets, filepath.Join(dir, e.Name()))
		}
	}
	return sockets
}
