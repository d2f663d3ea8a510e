package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord"
	"psrt/sched/densemap"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/replica"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/table"
)

// Replicated says which of several servers this one is that have groups of rows in
// chains. They meet at a coordinator, where beside the keys of sched/replica are:
//
//	serve/settings     what all of them must have alike
//	serve/open         trainers may come: what is to be loaded is there
//	serve/closing      no trainer is served any more
//	serve/closed/<i>   server i has none any more
//	serve/over         the servers end
type Replicated struct {
	Coord coord.Coordinator
	// Number is the server's own. First is how many the first map waits for, and
	// Chains what it is made from.
	Number int
	First  int
	Chains place.ChainsConfig
	// Host and Rack are what the server fails together with; Rack may be "".
	Host, Rack string
	// Weight is its share of the groups, relative to the others'; 0 means 1.
	Weight float64
}

// Keys of Replicated, and of who keeps the servers (sched/serve/keeper).
const (
	keySettings  = "serve/settings"
	KeyOpen      = "serve/open"
	KeyClosing   = "serve/closing"
	closedPrefix = "serve/closed/"
	KeyOver      = "serve/over"
)

// ClosedKey is there when a server has no trainers any more.
func ClosedKey(number int) string { return fmt.Sprint(closedPrefix, number) }

// Replica is one server process of a job with replicas, for trainers that come and go.
type Replica struct {
	cfg      Config
	host     *dial.Host
	refused  *dial.Refusals
	member   *replica.Member
	open     chan struct{} // closed when trainers may come
	closing  context.Context
	close    context.CancelCauseFunc
	trainers doors
	noted    atomic.Bool // what all groups' servers would say
	device   *server.Device
	leave    func() error // gives directories of rows back, and claims on cards
}

// errClosing is what trainers are told at the end.
var errClosing = errors.New("serve: the servers are ending")

// NewReplica listens; nobody is served before Run.
func NewReplica(cfg Config) (_ *Replica, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := cfg.checkReplicated(); err != nil {
		return nil, err
	}
	if err := cfg.checkFiles(); err != nil {
		return nil, err
	}
	r := &Replica{cfg: cfg, open: make(chan struct{}), refused: dial.NewRefusals(cfg.Log)}
	r.closing, r.close = context.WithCancelCause(context.Background())
	if r.cfg.Storage, r.leave, err = cfg.Storage.Own(cfg.Replicated.Number); err != nil {
		return nil, err
	}
	device, release := cfg.device(cfg.Replicated.Number)
	folders := r.leave
	r.device, r.leave = device, func() error {
		release()
		return folders()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.leave())
		}
	}()
	r.host, err = dial.New(dial.Config{Transport: cfg.Transport, Token: cfg.Token, Devices: cfg.Devices, Cover: cfg.Cover, OnReject: r.refused.OnStranger, OnProve: r.refused.OnProve})
	if err != nil {
		return nil, err
	}
	k := cfg.Replicated
	clearStale(cfg.Listen)
	r.member, err = replica.New(replica.Config{
		ID: k.Number, Host: r.host, Listen: cfg.Listen, Coord: k.Coord, Server: place.Server{Lanes: cfg.Lanes, Host: k.Host, Rack: k.Rack, Weight: k.Weight},
		First: k.Chains, FirstServers: k.First, Open: r.sit, Describe: r.describe, Note: cfg.Log,
	})
	if err != nil {
		return nil, errors.Join(taken(err, cfg.Listen), r.host.Close())
	}
	return r, nil
}

// checkReplicated refuses what servers with replicas cannot be.
func (c *Config) checkReplicated() error {
	k := c.Replicated
	switch {
	case k == nil || k.Coord == nil:
		return errors.New("serve: a replica needs Config.Replicated, with a coordinator")
	case k.Number < 0 || k.First < 1 || k.First > MaxServers:
		return fmt.Errorf("serve: server %d of %d at first, want 0 or more of 1 to %d", k.Number, k.First, MaxServers)
	case k.Chains.Replicas < 1 || k.Chains.Replicas > k.First:
		return fmt.Errorf("serve: %d replicas at %d servers", k.Chains.Replicas, k.First)
	}
	return nil
}

// sit makes the server of a group.
func (r *Replica) sit(seat replica.Seat) (replica.Group, error) {
	c := &r.cfg
	var s *server.Server
	whole := server.Config{
		ID: seat.Group, Map: seat.Map.GroupMap(), Host: r.host, Workers: c.Clients + 1, Staleness: c.Staleness, Modes: c.modes(), Merges: tree.Merges(0, c.Clients+1),
		Seed: c.Tables.Seed, Tables: c.Tables.Specs, Dense: c.Tables.Dense.config(), Tracked: c.Tables.lives(), Node: c.Node,
		MaxBytes: c.MaxBytes, Storage: c.Storage, Device: r.device, Note: c.Log, Second: r.noted.Swap(true),
		Audit: c.Audit, ReconnectFor: c.ReconnectFor, OnWorkerLost: func(worker int, cause error) { r.lost(seat.Group, s, worker, cause) },
		Trainers: server.Trainers{NewTable: c.newTable, Dense: c.Tables.Dense.Parts, Reserved: 1},
		Chain:    &server.ChainConfig{Self: seat.Self, Group: seat.Group, Dial: seat.Dial, OnReport: seat.OnReport, Unheard: seat.Unheard, StoreAway: seat.StoreAway},
	}
	k := c.Replicated
	s, err := server.New(whole.Part(k.Chains.Most(k.First)))
	if err != nil {
		return nil, err
	}
	s.Vacate()
	return &door{s, r}, nil
}

// lost gives up the place of a trainer that does not come back to a group.
func (r *Replica) lost(group int, s *server.Server, worker int, cause error) {
	if group == 0 { // the others' is the same
		r.cfg.Log(fmt.Sprintf("trainer %d broke its connection and did not come back within %v (%v): nobody waits for it any more", worker, r.cfg.ReconnectFor, cause))
	}
	if err := s.Lost(worker); err != nil && r.closing.Err() == nil {
		r.cfg.Log(fmt.Sprintf("trainer %d at group %d: %v", worker, group, err))
	}
}

// describe answers a trainer that asks what the job is.
func (r *Replica) describe(_ context.Context, c *place.Chains) (*psmsg.DescribeReply, error) {
	if c == nil {
		return nil, errors.New("serve: the servers have not all come yet")
	}
	blocks, err := densemap.Cut(r.cfg.Tables.Dense.config().Ranges)
	if err != nil {
		return nil, err
	}
	rep := &psmsg.DescribeReply{Chains: c, Workers: r.cfg.Clients, Open: true, Staleness: r.cfg.Staleness, Tables: r.specs(),
		DenseLen: r.cfg.Tables.Dense.Floats, DenseBlocks: len(blocks), Dense: r.cfg.Tables.Dense.Parts}
	rep.Record(r.cfg.Audit, blocks)
	return rep, nil
}

// specs are the tables that this server knows of: those that trainers made, too, where
// it has a group.
func (r *Replica) specs() []table.Spec {
	all := slices.Clone(r.cfg.Tables.Specs)
	for _, s := range r.Servers() {
		for _, t := range s.Tables() {
			if !slices.ContainsFunc(all, func(o table.Spec) bool { return o.ID == t.ID }) {
				all = append(all, t)
			}
		}
	}
	return all
}

// Tables are their names.
func (r *Replica) Tables() []string {
	names := []string{}
	for _, t := range r.specs() {
		names = append(names, t.Name)
	}
	return names
}

// Servers are those of the groups that this process has now.
func (r *Replica) Servers() (all []*server.Server) {
	groups := r.member.Groups()
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[g].(*door).Server)
	}
	return all
}

// Addr is where trainers dial.
func (r *Replica) Addr() string { return r.member.Addr() }

// Run serves until ctx ends, the servers are over, or this one was asked to leave and
// has. ready is called when trainers may come.
func (r *Replica) Run(ctx context.Context, ready func()) (err error) {
	defer r.refused.Close()
	defer r.host.Close()
	defer r.close(errClosing)
	defer func() { err = errors.Join(err, r.leave()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := r.agree(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	go r.follow(ctx, ready, stop)
	return r.member.Run(ctx)
}

// agreeWithin bounds the wait for the coordinator at the start.
const agreeWithin = time.Minute

// agree holds this server's settings against those of the first that came.
func (r *Replica) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeWithin)
	defer cancel()
	k := r.cfg.Replicated
	tables, err := json.Marshal(r.cfg.Tables)
	if err != nil {
		return err
	}
	mine, err := json.Marshal(settings{Servers: k.First, Lanes: r.cfg.Lanes, Clients: r.cfg.Clients, Staleness: r.cfg.Staleness, TableSync: r.cfg.TableSync.String(), Tables: string(tables), Chains: &k.Chains})
	if err != nil {
		return err
	}
	there, err := coord.PutNew(ctx, k.Coord, keySettings, mine, 0)
	if !errors.Is(err, coord.ErrConflict) {
		return err
	}
	if bytes.Equal(there, mine) {
		return nil
	}
	var first, own settings
	if err := errors.Join(json.Unmarshal(there, &first), json.Unmarshal(mine, &own)); err != nil {
		return fmt.Errorf("serve: the other servers' settings are not understood: %w; run the same psrt version everywhere", err)
	}
	return own.differ(&first, "the first server")
}

// follow does what whoever keeps the servers wants: let trainers in, end their
// connections, end.
func (r *Replica) follow(ctx context.Context, ready func(), stop context.CancelFunc) {
	k := r.cfg.Replicated
	if _, err := coord.AwaitThrough(ctx, k.Coord, KeyOpen); err != nil {
		return
	}
	close(r.open)
	ready()
	if _, err := coord.AwaitThrough(ctx, k.Coord, KeyClosing); err != nil {
		return
	}
	r.close(errClosing)
	r.trainers.wait()
	_, _ = k.Coord.Put(ctx, ClosedKey(k.Number), nil, 0) // who waits for it waits for a while only
	if _, err := coord.AwaitThrough(ctx, k.Coord, KeyOver); err == nil {
		r.member.Over()
		stop()
	}
}
