package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/audit"
	"psrt/sched/clock"
	"psrt/sched/place"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/sched/tree"
	"psrt/tiers/hbm/pick"
	"psrt/tiers/table"
)

// Limits of a Config.
const (
	MaxLanes   = 64
	MaxClients = 1024
)

const defaultReconnectFor = 10 * time.Second

// Config describes a server.
type Config struct {
	Listen    string // "host:port" or "unix:/path"
	Token     []byte
	Transport string
	Devices   dial.Devices
	Cover     dial.Cover // of what tcp carries
	Lanes     int
	// Clients is how many trainers there may be at a time.
	Clients int
	// Staleness is 0 for BSP, a bound for SSP, server.Async for ASP.
	Staleness int
	// TableSync is of tables, and of server.DenseName, that have another mode.
	TableSync clock.ByTable
	Tables    *Tables // nil: none but those that trainers describe
	// NewTables lets trainers describe tables that Tables lacks.
	NewTables bool
	Node      int // NUMA node of the rows, -1 any
	MaxBytes  int64
	// Storage has rows lie on disks that do not fit into MaxBytes; nil: none do.
	Storage *server.Storage
	// Device has the rows that trainers use lie nearer than memory; nil: none do.
	Device *pick.Device
	// Load is a model to begin with. Save is where the model goes in the end and,
	// where SaveEvery is not 0, meanwhile.
	Load, Save string
	SaveEvery  time.Duration
	// OnSave is told of each model that was to be saved, and why it was not. May be nil.
	OnSave func(error)
	// ReconnectFor is how long a trainer that broke its connection keeps its place in
	// the clocks, while others may wait for it; 0 means 10 s.
	ReconnectFor time.Duration
	// Group is the servers that trainers use as one with this one; nil: it is alone.
	// Save of its server 0 is where the model of all goes.
	Group *Group
	// Replicated is for NewReplica: several servers that have rows more than once.
	Replicated *Replicated
	// Audit has servers record for psrt audit; nil: they do not.
	Audit *audit.Config
	// Log gets a line about what an operator wants to know: refused connections,
	// lost trainers, saved models. May be nil. Called by several goroutines.
	Log func(string)
}

func (c *Config) validate() error {
	switch {
	case c.Lanes < 1 || c.Lanes > MaxLanes:
		return fmt.Errorf("serve: %d lanes, want 1 to %d", c.Lanes, MaxLanes)
	case c.Clients < 1 || c.Clients > MaxClients:
		return fmt.Errorf("serve: %d clients, want 1 to %d", c.Clients, MaxClients)
	case c.Group != nil && (c.Group.Servers < 1 || c.Group.Servers > MaxServers || c.Group.Index < 0 || c.Group.Index >= c.Group.Servers):
		return fmt.Errorf("serve: server %d of %d, want 0 to one less than their number, which is at most %d", c.Group.Index, c.Group.Servers, MaxServers)
	case c.Tables == nil && !c.NewTables:
		return errors.New("serve: no tables, and trainers may make none")
	case c.SaveEvery < 0 || c.SaveEvery > 0 && c.Save == "":
		return fmt.Errorf("serve: to save every %v, say where", c.SaveEvery)
	}
	if err := errors.Join(c.checkStorage(), c.CheckDevice()); err != nil {
		return err
	}
	if c.Tables == nil {
		c.Tables = &Tables{Seed: 1}
	}
	if err := c.checkModes(); err != nil {
		return err
	}
	if c.ReconnectFor <= 0 {
		c.ReconnectFor = defaultReconnectFor
	}
	if c.Log == nil {
		c.Log = func(string) {}
	}
	if c.OnSave == nil {
		c.OnSave = func(error) {}
	}
	return nil
}

// Server is a server that stands alone.
type Server struct {
	cfg     Config
	host    *dial.Host
	refused *dial.Refusals
	server  *server.Server
	ready   func()
	saving  sync.Mutex // one at a time: what is newest stays
	saves   int        // orders to save that this server gave; with saving
	first   settings   // of the group's server 0
	orders  chan numbered
	met     atomic.Pointer[place.Map]
	release func()      // gives claims on cards back
	begun   atomic.Bool // what is to be loaded is there
	// running ends with Run's context, life with Run.
	running, life context.Context
}

// New opens everything and loads the model, if there is one to load. The server
// listens; trainers wait until Run.
func New(cfg Config) (_ *Server, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := cfg.checkFiles(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, orders: make(chan numbered, 1)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.refused = dial.NewRefusals(cfg.Log)
	s.host, err = dial.New(dial.Config{Transport: cfg.Transport, Token: cfg.Token, Devices: cfg.Devices, Cover: cfg.Cover, OnReject: s.refused.OnReject})
	if err != nil {
		return nil, err
	}
	m, err := cfg.layout()
	if err != nil {
		return nil, err
	}
	clearStale(cfg.Listen)
	device, release := cfg.device(cfg.index())
	s.release = release
	s.server, err = server.New(server.Config{
		ID: cfg.index(), Map: m, Host: s.host, Listen: cfg.Listen, Workers: cfg.Clients, Staleness: cfg.Staleness, Modes: cfg.modes(), Merges: tree.Merges(0, cfg.Clients),
		Seed: cfg.Tables.Seed, Tables: cfg.Tables.Specs, Dense: cfg.Tables.Dense.config(), Tracked: cfg.Tables.lives(), Node: cfg.Node, MaxBytes: cfg.MaxBytes, Storage: cfg.Storage, Device: device, Note: cfg.Log,
		Audit: cfg.Audit, ReconnectFor: cfg.ReconnectFor, OnWorkerLost: s.lost, Begin: s.begin, End: s.end,
		Trainers: server.Trainers{Directory: s.directory, NewTable: s.cfg.newTable, Dense: cfg.Tables.Dense.Parts},
	})
	if err != nil {
		return nil, taken(err, cfg.Listen)
	}
	s.server.Vacate()
	return s, nil
}

// taken says what an address in use means to people.
func taken(err error, listen string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return &InputError{Path: "--listen " + listen, Msg: "the address is taken: another server listens there; stop it or choose another port"}
	}
	return err
}

// lost gives up the place of a trainer that does not come back.
func (s *Server) lost(worker int, cause error) {
	s.cfg.Log(fmt.Sprintf("trainer %d broke its connection and did not come back within %v (%v): nobody waits for it any more", worker, s.cfg.ReconnectFor, cause))
	if err := s.server.Lost(worker); err != nil {
		s.cfg.Log(err.Error())
	}
}

// newTable refuses what trainers may not make.
func (c *Config) newTable(r *psmsg.TableRequest) error {
	switch {
	case !c.NewTables:
		return errors.New("this server makes no table that its own tables file lacks; describe it there")
	case r.Spec.Optimizer.Kind == table.User:
		return errors.New("a rule from a library is described in the server's own tables file only")
	}
	return nil
}

// Tables are the names of the tables that there are.
func (s *Server) Tables() []string {
	names := []string{}
	for _, t := range s.server.Tables() {
		names = append(names, t.Name)
	}
	return names
}

// Server is the server itself, for what shows its figures.
func (s *Server) Server() *server.Server { return s.server }

// Addr is where trainers dial.
func (s *Server) Addr() string { return s.server.Addr() }

// Run serves until ctx ends, saves, and closes everything. ready is called when
// trainers are let in.
func (s *Server) Run(ctx context.Context, ready func()) error {
	defer s.close()
	s.ready = ready
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.running = ctx
	life, end := context.WithCancel(context.Background())
	s.life = life
	defer end()
	saving := make(chan struct{})
	go func() {
		defer close(saving)
		s.saveNowAndThen(ctx)
	}()
	err := s.server.Serve(ctx)
	cancel()
	<-saving
	return err
}

// begin runs when the lanes do and before anybody is let in.
func (s *Server) begin() error {
	if err := s.meet(s.running); err != nil {
		if s.running.Err() != nil {
			return nil // it was ended meanwhile
		}
		return err
	}
	if s.follows() {
		go s.follow(s.life)
	}
	if s.cfg.Load != "" {
		if err := s.load(s.cfg.Load); err != nil {
			return err
		}
	}
	s.begun.Store(true)
	s.noteLives()
	s.ready()
	return nil
}

// end runs when the last trainer's connection has ended and the lanes still run.
func (s *Server) end() error {
	switch {
	case !s.begun.Load(): // what there is to save was not loaded yet
		return nil
	case s.follows():
		return s.endFollowing()
	case s.cfg.Save == "":
		return nil
	}
	err := s.save(s.cfg.Save, true)
	if err != nil && s.cfg.Group != nil {
		s.callOff()
	}
	return err
}

func (s *Server) close() {
	if s.host != nil {
		_ = s.host.Close()
	}
	s.refused.Close()
	if s.release != nil {
		s.release()
	}
}
