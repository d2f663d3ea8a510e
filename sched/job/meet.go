package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"psrt/sched/rendezvous"
	"psrt/sched/train"
)

// LaunchedConfig is a rank that mpirun, srun or their like has started.
type LaunchedConfig struct {
	Identity rendezvous.Identity
	Servers  int
	Workers  int
	// Token is the job's secret where the user gave one; nil: rank 0 makes it.
	Token []byte
	// Interface, a name or a network, limits the addresses that are offered.
	Interface string
	Listen    string
	Transport string
	Timeout   time.Duration
	Store     StoreConfig
	// OneHost may refuse that all ranks are on one host, at every rank alike. May be nil.
	OneHost func() error
	// Describe is the job, at rank 0.
	Describe func() (*train.Job, error)
	Note     func(string)
}

// Launched is how a rank reaches the others.
type Launched struct {
	Coordinator string
	Token       []byte
	Listen      string
	// Hosted is rank 0's; nil elsewhere.
	Hosted *Hosted

	folder *rendezvous.Folder
}

// Close ends what was made for the rank.
func (l *Launched) Close() (err error) {
	if l.Hosted != nil {
		err = l.Hosted.Close()
	}
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	return err
}

// lastWord is how long the other ranks stay when there will be no job, so that
// rank 0's reason is printed before the launcher ends everybody.
const lastWord = 300 * time.Millisecond

// Meet brings a launched rank together with the others: by the launcher's own
// exchange, else, where all ranks share a host, in a folder. An error that is
// rendezvous.ErrNoExchange: neither is possible.
func Meet(ctx context.Context, cfg LaunchedConfig) (*Launched, error) {
	id := cfg.Identity
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.Timeout, fmt.Errorf("not all had come within %v (--join-timeout)", cfg.Timeout))
	defer cancel()
	ex, err := rendezvous.Open(ctx, id)
	switch {
	case err == nil:
		l, oneHost, err := meetBy(ctx, ex, cfg)
		if err == nil && oneHost && cfg.OneHost != nil {
			if err = cfg.OneHost(); err != nil {
				err = errors.Join(err, l.Close())
			}
		}
		if bye := ex.Close(); err == nil && bye != nil {
			cfg.Note("the launcher's " + ex.Name() + " did not say good-bye: " + bye.Error())
		}
		if err != nil && id.Rank > 0 {
			time.Sleep(lastWord)
		}
		return l, err
	case errors.Is(err, rendezvous.ErrNoExchange) && id.OneHost:
		return meetInFolder(ctx, cfg)
	}
	return nil, err
}

func meetBy(ctx context.Context, ex rendezvous.Exchange, cfg LaunchedConfig) (_ *Launched, oneHost bool, err error) {
	id := cfg.Identity
	l := &Launched{}
	mc := rendezvous.Config{
		Rank: id.Rank, World: id.World, Interface: cfg.Interface, Listen: cfg.Listen, Datagrams: byDatagrams(cfg.Transport),
		Who: func(r int) string { return RankName(r, cfg.Servers, cfg.Workers) },
	}
	if id.Rank == 0 {
		if mc.Token = cfg.Token; mc.Token == nil {
			mc.Token = rendezvous.NewToken()
		}
		if l.Hosted, mc.Failed = hostFor(ctx, cfg, ":0", mc.Token); mc.Failed == nil {
			mc.Coordinator = l.Hosted.Port()
		}
		defer func() {
			if err != nil && l.Hosted != nil {
				err = errors.Join(err, l.Hosted.Close())
			}
		}()
	}
	met, err := rendezvous.Meet(ctx, ex, mc)
	if err != nil {
		return nil, false, err
	}
	l.Token = met.Token
	l.Listen = net.JoinHostPort(met.Addr.String(), portOf(cfg.Listen))
	l.Coordinator = met.Coordinator
	if id.Rank == 0 {
		cfg.Note(meetingNote(ex, met))
	}
	return l, met.OneHost, nil
}

func meetingNote(ex rendezvous.Exchange, met *rendezvous.Met) string {
	if met.OneHost {
		return fmt.Sprintf("%d ranks on one host met by %s", len(met.Cards), ex.Name())
	}
	hosts := map[string]bool{}
	for _, c := range met.Cards {
		hosts[c.Place] = true
	}
	return fmt.Sprintf("%d ranks on %d hosts met by %s; all reach each other (tried in %d ms); this one at %s",
		len(met.Cards), len(hosts), ex.Name(), met.Took.Milliseconds(), met.Place())
}

// hostFor opens rank 0's coordinator.
func hostFor(ctx context.Context, cfg LaunchedConfig, addr string, token []byte) (*Hosted, error) {
	j, err := cfg.Describe()
	if err != nil {
		return nil, err
	}
	return HostCoordinator(ctx, addr, token, j, cfg.Store)
}

func meetInFolder(ctx context.Context, cfg LaunchedConfig) (*Launched, error) {
	key := cfg.Identity.Key
	if key == "" { // the launcher's process
		key = fmt.Sprintf("parent %d", os.Getppid())
	}
	folder, token, err := rendezvous.OpenFolder(ctx, os.TempDir(), key, cfg.Identity.Rank, cfg.Timeout)
	if err != nil {
		return nil, err
	}
	l := &Launched{Coordinator: folder.Coordinator(), Token: token, Listen: folder.Listen(cfg.Identity.Rank)}
	if cfg.Identity.Rank > 0 {
		return l, nil
	}
	if l.Hosted, err = hostFor(ctx, cfg, l.Coordinator, token); err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	l.folder = folder
	cfg.Note(fmt.Sprintf("%d ranks on one host met in a folder of %s", cfg.Identity.World, os.TempDir()))
	return l, nil
}

// portOf is the port of a listening address, "0" where it has none.
func portOf(listen string) string {
	if _, port, err := net.SplitHostPort(listen); err == nil && port != "" {
		return port
	}
	return "0"
}

func byDatagrams(transport string) bool { return transport == "quic" }

// preflight is Meet for ranks that reach the coordinator already.
func preflight(ctx context.Context, cfg *RankConfig, job *train.Job) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	who := func(r int) string { return nameIn(r, job) }
	ex := rendezvous.Through(cfg.Coord, cfg.Rank, cfg.World, who)
	met, err := rendezvous.Meet(ctx, ex, rendezvous.Config{
		Rank: cfg.Rank, World: cfg.World, Who: who, Token: cfg.Token, Interface: cfg.Interface, Listen: cfg.Listen, Datagrams: byDatagrams(cfg.Transport),
	})
	switch {
	case err != nil:
		return err
	case met.OneHost && cfg.Listen == "":
		cfg.Listen = cfg.near
	case !met.OneHost:
		cfg.Listen = net.JoinHostPort(met.Addr.String(), portOf(cfg.Listen))
	}
	if cfg.Rank == 0 && cfg.Events != nil {
		cfg.Events(train.Event{Note: meetingNote(ex, met)})
	}
	return nil
}
