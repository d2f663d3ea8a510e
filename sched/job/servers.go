package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// ServersConfig describes the servers of a job that has no workers of psrt's own:
// psrt serve --replicas.
type ServersConfig struct {
	Servers, Lanes, Replicas, Groups int
	AllowSameHost                    bool
	Token                            []byte

	// Saved tells a user, in words, from which model the servers can begin again after
	// all replicas of a group have died.
	Saved string

	// What follows is for servers as processes of this machine. Flags are those of a
	// server that is started for the n-th time, from 0.
	Exe   string
	Flags func(number, n int, coordinator, metrics string) []string
	// Event takes a line that a server has written to descriptor 3. A failure that is
	// bad input ends all, others are the server's own.
	Event func(number int, line []byte) *train.Failure
	Log   func(line string)
	Note  func(line string)
	// Keep runs beside the servers; when it returns they end. Its error is that of all.
	Keep  func(ctx context.Context, store coord.Coordinator, dir string) error
	Grace time.Duration
}

// job is how the servers are known to psrt server and psrt status.
func (c *ServersConfig) job() *train.Job {
	j := &train.Job{Servers: c.Servers, Lanes: c.Lanes, Replicas: c.Replicas, Groups: c.Groups, AllowSameHost: c.AllowSameHost}
	j.SettleChains()
	return j
}

// GroupCount is how many groups there are.
func (c *ServersConfig) GroupCount() int { return c.job().Groups }

// RunServers starts servers as processes, those too that are asked for later, and
// those again that die as long as every group has a replica. It returns when all have
// ended, and leaves nothing behind.
func RunServers(ctx context.Context, cfg ServersConfig) error {
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		return err
	}
	defer scratch.Close()
	dir := scratch.Path
	if err := os.WriteFile(filepath.Join(dir, tokenName), cfg.Token, 0o600); err != nil {
		return err
	}
	store, end, err := HostServers(ctx, "unix:"+filepath.Join(dir, coordinatorName), cfg)
	if err != nil {
		return err
	}
	defer end()
	l := &launcher{job: cfg.job(), saved: cfg.Saved, dir: dir, store: store, failures: map[int]*train.Failure{}, starts: map[int]int{}, lost: map[int]bool{}, waiting: map[int]time.Time{}}
	l.cfg.Events = func(e train.Event) { cfg.Note(cmp.Or(e.Warning, e.Note)) }
	l.flags = func(rank, n int) []string {
		if n > 0 {
			_ = os.Remove(metricsSocket(dir, rank)) // of the process before, if it had made it
		}
		return cfg.Flags(rank, n, "unix:"+filepath.Join(dir, coordinatorName), "unix:"+metricsSocket(dir, rank))
	}
	l.ending = func() bool { return ctx.Err() != nil }
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	more := make(chan launch.Later)
	lc := launch.Config{Exe: cfg.Exe, Grace: cfg.Grace, OnDeath: l.deaths(context.WithoutCancel(ctx)), More: more, OnLog: func(_ int, line string) { cfg.Log(line) },
		OnEvent: func(rank int, line []byte) {
			if f := cfg.Event(rank, line); f != nil {
				l.note(rank, f)
			}
		}}
	for i := range cfg.Servers {
		lc.Ranks = append(lc.Ranks, l.rank(i))
	}
	go l.added(running, more)
	keeping, release := context.WithCancelCause(ctx)
	defer release(nil)
	kept := make(chan error, 1)
	launching, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // a signal is Keep's
	defer cancel(nil)
	go func() {
		err := cfg.Keep(keeping, store, dir)
		kept <- err
		if err == nil {
			err = errKept
		}
		cancel(err)
	}()
	err = launch.Run(launching, lc)
	release(ErrServersGone)
	switch failed := <-kept; {
	case failed != nil && !errors.Is(failed, ErrServersGone):
		return failed
	case errors.Is(err, errKept):
		return nil
	}
	return explain(err, l.told(), l.name)
}

// ErrServersGone is the cause of the end of what Keep is given, where no server runs any
// more.
var ErrServersGone = errors.New("job: the servers have ended")

// errKept: the servers were to end.
var errKept = errors.New("job: the servers end")

// HostServers keeps the coordinator of such servers at addr, which psrt server and
// psrt status reach.
func HostServers(ctx context.Context, addr string, cfg ServersConfig) (store coord.Coordinator, end func(), err error) {
	network, address := splitAddr(addr)
	listener, err := secure.Listen(network, address, cfg.Token)
	if err != nil {
		return nil, nil, badInput("--coordinator %s: %w; it must be an address of this host, with a free port", addr, err)
	}
	s := local.New()
	refused := refusals(listener, cfg.Note)
	hosted := remote.Serve(listener, s)
	end = func() {
		_, _ = hosted.Close(), s.Close()
		refused.Close()
	}
	if err := publish(ctx, s, cfg.job(), false); err != nil {
		end()
		return nil, nil, err
	}
	if network != "unix" { // a server's process keeps it
		if _, err := s.Put(ctx, keyKeeper, []byte(rank0), 0); err != nil {
			end()
			return nil, nil, err
		}
	}
	return s, end, nil
}

// EtcdServers is where such servers meet in the user's etcd. first is that the caller
// is the one who keeps them, and that none of them runs: it finds the store empty. A
// keeper that comes back finds it as it was.
func EtcdServers(ctx context.Context, cfg ServersConfig, sc StoreConfig, keeper bool) (store coord.Coordinator, first bool, err error) {
	sc.Ranks = true
	s, err := openStore(ctx, sc, cfg.Token, false)
	if err != nil {
		return nil, false, err
	}
	if !keeper {
		lives, end, err := knocker(cfg.Token)
		if err == nil {
			err = awaitCleared(ctx, s, lives, sc.Note)
			end()
		}
		if err != nil {
			return nil, false, errors.Join(err, s.Close())
		}
		return s, false, nil
	}
	if there, err := serving(ctx, s); err == nil && len(there) > 0 && sc.Note != nil {
		sc.Note(fmt.Sprintf("servers (%s) are registered in this etcd: looking for %v whether they live", numbers(there), vacantWithin))
	}
	running, err := outlasting(ctx, s, vacantWithin)
	if err != nil {
		return nil, false, errors.Join(err, s.Close())
	}
	if len(running) > 0 {
		return s, false, nil
	}
	if err := s.Close(); err != nil {
		return nil, false, err
	}
	if s, err = openStore(ctx, sc, cfg.Token, true); err != nil {
		return nil, false, err
	}
	if err := publish(ctx, s, cfg.job(), true); err != nil {
		return nil, false, errors.Join(err, s.Close())
	}
	return s, true, nil
}

// Addresses are where the servers listen.
func (v *View) Addresses() (all []string) {
	for _, s := range v.Servers {
		all = append(all, s.Addr)
	}
	return all
}
