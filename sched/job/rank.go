package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord"
	"psrt/sched/coord/patient"
	"psrt/sched/kv"
	"psrt/sched/metrics"
	"psrt/sched/psmsg"
	"psrt/sched/train"
)

const keyJob = "job"

// RankConfig says which rank this process is and how it reaches the others.
type RankConfig struct {
	Rank      int
	World     int
	Coord     coord.Coordinator
	Token     []byte
	Transport string
	Devices   dial.Devices
	Cover     dial.Cover // of what tcp carries
	// Listen is where a server rank listens: "unix:/path" or "host:port".
	Listen string
	Node   int
	Events func(train.Event)
	// Metrics is what the rank shows while it runs; may be nil.
	Metrics *metrics.Rank
	// Seen lets those who have the token look at the rank: psrt status, psrt doctor.
	Seen bool
	// StallAfter is how long a wait may last until it is told who waits for whom; 0:
	// however long.
	StallAfter time.Duration
	// Check may refuse the job before the rank joins the others; may be nil.
	Check func(*train.Job) error
	// JoinTimeout bounds the wait for the job and for other ranks at the start.
	JoinTimeout time.Duration
	// Preflight has the ranks try all connections to each other before anything
	// begins; Listen is then chosen from what all of them reach. Interface, a name
	// or a network, limits what is offered.
	Preflight bool
	Interface string
	// Store, of a server other than rank 0, is the user's etcd.
	Store StoreConfig
	// Own, of a server, is the user's etcd, which it asks itself once rank 0 has begun
	// the job there.
	Own StoreConfig
	// Hosted is rank 0's coordinator, which others may come to keep; nil elsewhere.
	Hosted *Hosted
	// HostLabel and Rack say what a server fails together with; "": its host, and no rack.
	HostLabel, Rack string
	// Weight is a server's share of the groups, relative to the others'; 0 means 1.
	Weight float64
	// Began is when this process did; zero: when RunRank is called.
	Began time.Time
	// OnAdopt is told of each worker for which this one goes on, too; may be nil.
	OnAdopt func(worker int)

	asked      context.Context // ends when somebody wants this rank to end
	met        string          // where the coordinator was reached
	card       processCard     // of this process, where nobody takes its place
	keepingTTL time.Duration   // of tests, 0: see warden

	refused *dial.Refusals // of this rank's listeners

	near string // a listening address of this host that the coordinator's reaches
}

// RunRank runs one rank until the job is done. A worker returns the result.
func RunRank(ctx context.Context, cfg RankConfig) (res *train.Result, err error) {
	if cfg.JoinTimeout == 0 {
		cfg.JoinTimeout = time.Minute
	}
	if cfg.Began.IsZero() {
		cfg.Began = time.Now()
	}
	asked := ctx
	cfg.asked = asked
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	job, err := readJob(ctx, cfg)
	if err != nil {
		return nil, err
	}
	late, err := comesLate(ctx, cfg, job)
	if err != nil {
		return nil, err
	}
	if world := job.World(); !late && (cfg.World != world || cfg.Rank < 0 || cfg.Rank >= world) {
		return nil, &train.InputError{Err: fmt.Errorf("job: rank %d of %d, but the job has %s: start %d ranks, or change how many there are of each",
			cfg.Rank, cfg.World, kinds(job), world)}
	}
	if err := alone(ctx, &cfg, job, late); err != nil {
		return nil, err
	}
	if cfg.Check != nil {
		if err := cfg.Check(job); err != nil {
			raise(cfg.Coord, nameIn(cfg.Rank, job), err)
			leave(cfg)
			return nil, err
		}
	}
	cfg.refused = dial.NewRefusals(func(line string) {
		if cfg.Events != nil {
			cfg.Events(train.Event{Warning: nameIn(cfg.Rank, job) + " has " + line})
		}
	})
	defer cfg.refused.Close()
	wish, err := readWish(ctx, cfg.Coord)
	if err != nil {
		return nil, err
	}
	kept, mine, err := enter(ctx, &cfg, job, wish, late)
	told := func() {}
	defer func() {
		cancel(nil) // nobody watches what ends with us
		told()
		if bye := kept.end(asked.Err() != nil, err); err == nil {
			err = bye
		}
	}()
	if mine != nil {
		defer func() { mine.end(err == nil) }()
	}
	if err != nil {
		endForAll(&cfg, job)
		return nil, err
	}
	if cfg.Listen == "" {
		cfg.Listen = cfg.near
	}
	if cfg.Coord, err = lasting(ctx, cfg); err != nil {
		return nil, err
	}
	if !late {
		if err := alone(ctx, &cfg, job, late); err != nil {
			return nil, err
		}
	}
	told = tellEnd(cfg, job)
	defer beSeen(ctx, &cfg, job)()
	cfg.Metrics.Name(nameIn(cfg.Rank, job))
	watch := stallWatch(ctx, &cfg, job)
	go watchAbort(ctx, cfg, job, cancel)
	if cfg.Node >= 0 {
		cfg.Devices.Node, cfg.Devices.HasNode = cfg.Node, true
	}
	host, err := dial.New(dial.Config{Transport: cfg.Transport, Devices: cfg.Devices, Cover: cfg.Cover, Token: cfg.Token, Listen: dataListen(cfg.Listen), OnReject: cfg.refused.OnStranger, OnProve: cfg.refused.OnProve})
	if err != nil {
		return nil, err
	}
	defer host.Close()
	cfg.Metrics.Damaged(host.Damaged)
	rank := train.Rank{Index: cfg.Rank, Coord: cfg.Coord, Host: host, Listen: cfg.Listen, Node: cfg.Node, Events: cfg.Events, Metrics: cfg.Metrics, Stall: watch}
	rank.Reach = reach(&cfg)
	number, serves := serverOf(cfg.Rank, job)
	if serves {
		rank.Index, rank.Label, rank.Rack, rank.Weight = number, hostLabel(cfg.HostLabel), cfg.Rack, cfg.Weight
		rank.OnHungUp = hungUp(ctx, &cfg, job)
		err = train.RunServer(ctx, job, rank)
	} else {
		rank.Index, rank.Label = rank.Index-job.Servers, cfg.HostLabel
		run := runWorker
		if job.IsDense(rank.Index) {
			run = runDense
		}
		start := time.Since(cfg.Began)
		if res, err = run(ctx, &cfg, job, rank, mine, cancel); res != nil {
			res.StartSeconds = start.Seconds()
		}
	}
	if err == nil {
		leave(cfg)
	}
	if err != nil {
		if takenOver(ctx, err) {
			return nil, &psmsg.TakenOverError{Worker: rank.Index}
		}
		if cause := context.Cause(ctx); cause != nil && cause != context.Canceled {
			leave(cfg)
			return nil, cause // what ended the job explains more than what it broke here
		}
		if serves && outlived(cfg, job) { // it is for the others to go on
			return nil, err
		}
		raise(cfg.Coord, nameIn(cfg.Rank, job), err)
	}
	return res, err
}

// reach is how a rank reaches servers that are not of its job.
func reach(cfg *RankConfig) kv.Config {
	say := cfg.Events
	if say == nil {
		say = func(train.Event) {}
	}
	c := kv.Config{StallAfter: kv.StallsAfter(cfg.StallAfter), Say: func(line string) { say(train.Event{Stall: line}) }}
	c.Reach(cfg.Transport, cfg.Devices, cfg.Cover)
	return c
}

// kinds is what a job consists of, for people.
func kinds(j *train.Job) string {
	s := fmt.Sprintf("%d servers and %d workers", j.Servers, j.Workers)
	if j.Heter > 0 {
		s = fmt.Sprintf("%d servers, %d workers and %d dense ranks", j.Servers, j.Workers, j.Heter)
	}
	return s
}

// enter brings a rank into the job: into its place among the others, and to its store.
// With an error, too, what it gives is the caller's to end.
func enter(ctx context.Context, cfg *RankConfig, job *train.Job, wish *keepersWish, late bool) (kept *keeper, mine *number, err error) {
	if wish == nil { // the store stays where it is, or has gone where it is kept
		if kept, err = follow(ctx, cfg, job); err == nil {
			mine, err = own(ctx, *cfg, job)
		}
		if err != nil {
			return kept, nil, err
		}
	}
	if late || kept != nil {
		return kept, mine, nil
	}
	if err = assemble(ctx, *cfg, job); err == nil && cfg.Preflight && !mine.replaces() {
		err = preflight(ctx, cfg, job)
	}
	if err == nil && wish != nil {
		kept, err = keep(ctx, cfg, job, wish)
	}
	if err != nil {
		leave(*cfg)
		return nil, mine, err
	}
	if wish != nil {
		mine, err = own(ctx, *cfg, job)
	}
	return kept, mine, err
}

// leave says that this rank needs the coordinator no more. Nobody waits for the
// answer: the coordinator may be gone with it.
func leave(cfg RankConfig) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = cfg.Coord.Put(ctx, endKey(cfg.Rank), nil, 0)
}

// dataListen is where data connections of the tcp transport arrive: beside a
// unix control socket only this machine's processes can, else dial takes the
// host of the control address.
func dataListen(control string) string {
	if network, _ := splitAddr(control); network == "unix" {
		return "127.0.0.1:0"
	}
	return ""
}

// RankName is how people know a world rank of a job with so many servers and workers;
// those behind them are dense ranks.
func RankName(rank, servers, workers int) string {
	j := train.Job{Servers: servers, Workers: workers}
	if rank < servers {
		return nameIn(rank, &j)
	}
	return j.MemberName(rank - servers)
}

// assemble waits until every rank is there, so that a missing one is named
// before anybody has begun to work.
func assemble(ctx context.Context, cfg RankConfig, job *train.Job) error {
	ctx, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	party := coord.Party{Name: "join", N: cfg.World, ID: cfg.Rank, Stays: job.Survives(), Who: func(id int) string {
		return fmt.Sprintf("rank %d (%s)", id, nameIn(id, job))
	}}
	var aborted *coord.AbortError
	err := party.Barrier(ctx, cfg.Coord)
	if errors.As(err, &aborted) {
		return aborted
	}
	if err != nil {
		return fmt.Errorf("job: %s: %w; start every rank, with the same --coordinator and --token-file", nameIn(cfg.Rank, job), err)
	}
	return nil
}

func readJob(ctx context.Context, cfg RankConfig) (*train.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	value, err := coord.Await(ctx, cfg.Coord, keyJob)
	if err != nil {
		return nil, fmt.Errorf("job: rank %d waits for the job description: %w", cfg.Rank, err)
	}
	var job train.Job
	if err := json.Unmarshal(value, &job); err != nil {
		return nil, fmt.Errorf("job: the job description is not understood: %w; run the same psrt version everywhere", err)
	}
	return &job, job.Validate()
}

// keyLasts is there where the coordinator outlives the job's processes: its silence
// then means nothing but to wait.
const keyLasts = "lasts"

// lasting makes a coordinator patient that will come back, for as long as ctx, the rank's,
// and the courtesy.
func lasting(ctx context.Context, cfg RankConfig) (coord.Coordinator, error) {
	asking, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	_, err := patient.New(cfg.Coord, nil).Get(asking, keyLasts) // its keepers may just choose whom to follow
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return cfg.Coord, nil
	case err != nil:
		return nil, err
	}
	return untilOver(ctx, patient.New(cfg.Coord, nil)), nil
}

// Publish puts the job where the ranks look for it.
func Publish(ctx context.Context, c coord.Coordinator, j *train.Job) error {
	return publish(ctx, c, j, false)
}

func publish(ctx context.Context, c coord.Coordinator, j *train.Job, lasts bool) error {
	if lasts {
		if _, err := c.Put(ctx, keyLasts, nil, 0); err != nil {
			return err
		}
	}
	b, err := json.Marshal(j)
	if err != nil {
		return err
	}
	_, err = c.Put(ctx, keyJob, b, 0)
	return err
}

// raise tells the other ranks why this one failed. The first reason counts.
func raise(c coord.Coordinator, rank string, cause error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	coord.Abort(ctx, c, fmt.Sprintf("%s: %v", rank, cause))
}

// watchAbort cancels the rank when the flag goes up. So does the loss of the
// coordinator, but in a job with chains, which goes on as far as it needs none.
func watchAbort(ctx context.Context, cfg RankConfig, job *train.Job, cancel context.CancelCauseFunc) {
	lost := func(err error) {
		if !job.Chained() {
			cancel(err)
		} else if cfg.Events != nil {
			cfg.Events(train.Event{Warning: fmt.Sprintf("the coordinator is lost: training goes on until workers have to meet, and servers cannot change (%v); with --coordinator https://…, your etcd, it comes back", err)})
		}
	}
	flag, err := coord.WatchAbort(ctx, cfg.Coord)
	if err != nil {
		lost(fmt.Errorf("job: the coordinator is lost: %w", err))
		return
	}
	select {
	case reason, ok := <-flag:
		if ok {
			cancel(&coord.AbortError{Reason: reason})
		} else if ctx.Err() == nil {
			lost(&train.PeerLost{What: "the coordinator is gone"})
		}
	case <-ctx.Done():
	}
}

// Failure puts an error into the form that goes over the event pipe.
func Failure(err error) *train.Failure {
	var bad interface{ BadInput() bool }
	var ab *coord.AbortError
	var lost *train.PeerLost
	var asked interface{ Interrupted() bool } // the launcher ends all ranks when one fails
	return &train.Failure{
		Message:   err.Error(),
		BadInput:  errors.As(err, &bad) && bad.BadInput(),
		Secondary: errors.As(err, &ab) || errors.As(err, &lost) || errors.As(err, &asked) && asked.Interrupted(),
	}
}

// EventPipe gives the sink for a rank that the launcher started: descriptor 3.
func EventPipe() func(train.Event) {
	f := os.NewFile(3, "events")
	return func(e train.Event) {
		if b, err := json.Marshal(e); err == nil {
			f.Write(append(b, '\n'))
		}
	}
}
