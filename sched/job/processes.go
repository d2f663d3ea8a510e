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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/sched/coord"
	"psrt/sched/launch"
	"psrt/sched/metrics"
	"psrt/sched/train"
)

// ProcessConfig says how to start the ranks of a job on this machine.
type ProcessConfig struct {
	// Exe and Args start one rank, with the transport it shall use; rank, world size, coordinator and token
	// file are appended as flags.
	Exe  string
	Args []string
	Env  []string
	// Colocate: every process is a server and a worker.
	Colocate bool
	Events   func(train.Event)
	Log      func(rank string, line string)
	// Store is where the job's keys are kept; Dir is filled in.
	Store StoreConfig
	// Metrics is told, before the ranks begin, the unix sockets on which each
	// will show its metrics. May be nil.
	Metrics func(sockets []string)
	// WorkerRestarts is how often each worker that dies is started again, of a job with
	// train.LossRestart. After that, others go on for it.
	WorkerRestarts int
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
	tokenFile := filepath.Join(dir, tokenName)
	if err := os.WriteFile(tokenFile, token, 0o600); err != nil {
		return nil, err
	}
	cfg.Store.Dir = dir
	socket := filepath.Join(dir, coordinatorName)
	coordinator, err := HostCoordinator(ctx, "unix:"+socket, token, j, cfg.Store)
	if err != nil {
		return nil, err
	}
	defer coordinator.Close()

	l := &launcher{job: j, cfg: cfg, dir: dir, store: coordinator.store, failures: map[int]*train.Failure{}, starts: map[int]int{}, lost: map[int]bool{}, waiting: map[int]time.Time{}}
	lc := launch.Config{Exe: cfg.Exe, OnEvent: l.event}
	var sockets []string
	for r := range l.processes() {
		sockets = append(sockets, metricsSocket(dir, r))
		lc.Ranks = append(lc.Ranks, l.rank(r))
	}
	lc.OnDeath = l.deaths(ctx)
	if j.Survives() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for r := j.Servers; r < j.Servers+j.Members(); r++ {
			l.waiting[r] = time.Now()
		}
		kill := make(chan launch.Victim)
		go l.killSilent(ctx, kill)
		lc.Kill = kill
	}
	if j.Chained() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		more := make(chan launch.Later)
		go l.added(ctx, more)
		lc.More = more
	}
	if cfg.Metrics != nil {
		cfg.Metrics(sockets)
	}
	if cfg.Log != nil {
		lc.OnLog = func(rank int, line string) { cfg.Log(l.name(rank), line) }
	}
	err = launch.Run(ctx, lc)
	if err != nil {
		return nil, explain(err, l.told(), l.name)
	}
	if l.result == nil {
		return nil, errors.New("job: every rank ended well but none reported a result: please report this")
	}
	return l.result, nil
}

// launcher is RunProcesses at work.
type launcher struct {
	job   *train.Job
	cfg   ProcessConfig
	dir   string
	store coord.Coordinator
	flags func(rank, n int) []string // of servers that are not psrt train's; else nil
	saved string                     // what such servers can begin with again, in words
	// ending: nobody is started any more, and those that live are needed until what they
	// have is saved. nil: no.
	ending func() bool

	mu       sync.Mutex
	result   *train.Result
	starts   map[int]int            // by rank, after the first
	failures map[int]*train.Failure // by rank
	order    []int                  // ranks in the order in which they said them
	lost     map[int]bool           // ranks of workers that are not started again
	waiting  map[int]time.Time      // ranks of workers that were started, and have not shown themselves
}

// rank is how rank r is started, the next time. Its sockets are new: what a process
// before it left behind is in nobody's way.
func (l *launcher) rank(r int) launch.Rank {
	n := l.started(r)
	NameRank(l.dir, r, l.name(r))
	if l.flags != nil {
		return launch.Rank{Name: l.name(r), Args: l.flags(r, n), Env: []string{EnvLaunched + "=1"}}
	}
	listen := "rank-" + strconv.Itoa(r)
	if n > 0 {
		listen += "." + strconv.Itoa(n)
		_ = os.Remove(metricsSocket(l.dir, r)) // of the process before, if it had made it
	}
	args := append(slices.Clone(l.cfg.Args),
		"--rank", strconv.Itoa(r), "--world-size", strconv.Itoa(l.processes()),
		"--coordinator", "unix:"+filepath.Join(l.dir, coordinatorName), "--token-file", filepath.Join(l.dir, tokenName),
		"--listen", "unix:"+filepath.Join(l.dir, listen), "--metrics", "unix:"+metricsSocket(l.dir, r))
	return launch.Rank{Name: l.name(r), Args: args, Env: append([]string{EnvLaunched + "=1"}, l.cfg.Env...)}
}

func (l *launcher) hasResult() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result != nil
}

// processes is how many the job begins with.
func (l *launcher) processes() int {
	if l.cfg.Colocate {
		return l.job.Servers
	}
	return l.job.World()
}

// started is how often a rank was started again.
func (l *launcher) started(rank int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.starts[rank]
}

// name is how people know a rank.
func (l *launcher) name(rank int) string {
	if l.cfg.Colocate {
		return fmt.Sprintf("rank %d", rank)
	}
	return nameIn(rank, l.job)
}

// event takes a line of a rank; launch calls it one at a time.
func (l *launcher) event(rank int, line []byte) {
	var e train.Event
	if json.Unmarshal(bytes.TrimSpace(line), &e) != nil {
		return
	}
	switch {
	case e.Failure != nil:
		l.note(rank, e.Failure)
	case e.Result != nil:
		l.mu.Lock()
		l.result = e.Result
		l.mu.Unlock()
	case l.cfg.Events != nil:
		l.cfg.Events(e)
	}
}

// note keeps what a rank said of its end; the newest process's word counts.
func (l *launcher) note(rank int, f *train.Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order = append(slices.DeleteFunc(l.order, func(r int) bool { return r == rank }), rank)
	l.failures[rank] = f
}

// farewell is what a rank said of its end.
type farewell struct {
	rank int
	*train.Failure
}

// told is what ranks said of their ends and is still the job's, the earliest first.
func (l *launcher) told() (all []farewell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.order {
		if f := l.failures[r]; f != nil { // else the job went on without that process
			all = append(all, farewell{r, f})
		}
	}
	return all
}

// In the launcher's directory.
const (
	coordinatorName = "coordinator" // a socket
	tokenName       = "token"
)

// RankFailure is a job's end because a rank could not go on.
type RankFailure struct {
	Rank string
	train.Failure
}

func (f *RankFailure) Error() string { return f.Rank + ": " + f.Message }

// BadInput reports whether the user's input is at fault.
func (f *RankFailure) BadInput() bool { return f.Failure.BadInput }

// explain prefers what the ranks said to how they exited: the earliest failure
// that is not another's consequence, of bad input before all others. A rank that a
// signal took said nothing, and is the cause whatever the others say.
func explain(err error, told []farewell, name func(rank int) string) error {
	var death *launch.Death
	var lost *LostError
	if errors.As(err, &lost) || !errors.As(err, &death) {
		return err
	}
	if death.Signal == 0 {
		for _, is := range []func(f farewell) bool{
			func(f farewell) bool { return f.BadInput },
			func(f farewell) bool { return !f.Secondary },
			func(f farewell) bool { return f.rank == death.Rank },
		} {
			if i := slices.IndexFunc(told, is); i >= 0 {
				return &RankFailure{Rank: name(told[i].rank), Failure: *told[i].Failure}
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

// rankName + number is a file with how people know a rank.
const rankName = "name-"

// NameRank leaves a rank's name in its launcher's directory, for MetricsPlaces: who does
// not answer can no longer say it.
func NameRank(dir string, rank int, name string) {
	_ = os.WriteFile(filepath.Join(dir, rankName+strconv.Itoa(rank)), []byte(name), 0o600) // it is "rank N" then
}

// MetricsPlaces are those of the ranks in a running launcher's directory.
func MetricsPlaces(dir string) (places []metrics.Place) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the launcher has ended meanwhile
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), metricsName) {
			rank := strings.TrimPrefix(e.Name(), metricsName)
			name, err := os.ReadFile(filepath.Join(dir, rankName+rank))
			if err != nil || len(name) == 0 {
				name = []byte("rank " + rank)
			}
			places = append(places, metrics.Place{Name: string(name), Addr: filepath.Join(dir, e.Name())})
		}
	}
	return places
}
