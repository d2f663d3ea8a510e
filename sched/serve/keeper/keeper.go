package keeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/coord"
	"psrt/sched/kv"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/serve"
	"psrt/tiers/ckpt"
	"psrt/tiers/table"
)

// Config says which servers these are.
type Config struct {
	Coord coord.Coordinator
	Host  *dial.Host
	// Load, Save, SaveEvery and OnSave are serve.Config's.
	Load, Save string
	SaveEvery  time.Duration
	OnSave     func(error)
	// Tables are what the servers begin with; nil: nothing.
	Tables *serve.Tables
	Log    func(string)
}

const (
	// meetWithin bounds the wait for all servers at the start.
	meetWithin = time.Minute
	// reachWithin bounds the wait for their groups' servers, which may empty disks first.
	reachWithin = 3 * time.Minute
	loadWithin  = 30 * time.Minute
	saveWithin  = 10 * time.Minute
	// closeWithin bounds the wait for the servers to let their trainers go: one that
	// does not answer is dead, and its groups are others'.
	closeWithin = 10 * time.Second
	overWithin  = time.Second
)

// Keeper keeps the servers.
type Keeper struct{ cfg Config }

// Begin returns when trainers may come.
func Begin(ctx context.Context, cfg Config) (*Keeper, error) {
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	if cfg.OnSave == nil {
		cfg.OnSave = func(error) {}
	}
	if cfg.Tables == nil {
		cfg.Tables = &serve.Tables{Seed: 1}
	}
	k := &Keeper{cfg}
	meeting, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	if _, err := coord.Await(meeting, cfg.Coord, replica.KeyMap); err != nil {
		return nil, fmt.Errorf("keeper: the servers have not all come: %w; start all of them with the same --coordinator", err)
	}
	if _, err := cfg.Coord.Get(ctx, serve.KeyOpen); errors.Is(err, coord.ErrNotFound) { // else trainers are there, and it comes back
		if err := k.reach(ctx); err != nil {
			return nil, err
		}
	}
	if cfg.Load != "" {
		if err := k.load(ctx); err != nil {
			return nil, err
		}
	}
	_, err := cfg.Coord.Put(ctx, serve.KeyOpen, nil, 0)
	return k, err
}

// Run saves every SaveEvery, until ctx ends. What fails is told, and tried again the
// next time: the last good model is still there.
func (k *Keeper) Run(ctx context.Context) {
	if k.cfg.SaveEvery == 0 {
		<-ctx.Done()
		return
	}
	t := time.NewTicker(k.cfg.SaveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := k.save(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Log(fmt.Sprintf("could not save: %v", err))
		}
	}
}

// End has the servers end, after the last save.
func (k *Keeper) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	served, done := k.served(ctx)
	defer done()
	err := k.close(served)
	if err == nil && k.cfg.Save != "" {
		err = k.save(served)
	}
	if gone := context.Cause(served); errors.Is(gone, errNobody) {
		if err = nil; k.cfg.Save != "" {
			err = gone
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), overWithin)
	defer cancel()
	_, over := k.cfg.Coord.Put(ending, serve.KeyOver, nil, 0)
	return errors.Join(err, over)
}

// errNobody ends a save that nobody could make.
var errNobody = errors.New("keeper: no server is left: the last rows are not saved, the last --save is still there")

// lookEvery is between two looks at who is registered.
const lookEvery = 500 * time.Millisecond

// served is a context that ends when no server is registered any more: those that died
// are until their leases end.
func (k *Keeper) served(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			listed, _, err := k.cfg.Coord.List(ctx, strings.TrimSuffix(replica.ServerKey(0), "0"))
			if err == nil && len(listed) == 0 {
				cancel(errNobody)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookEvery):
			}
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}

// close waits until no server has trainers any more.
func (k *Keeper) close(ctx context.Context) error {
	if _, err := k.cfg.Coord.Put(ctx, serve.KeyClosing, nil, 0); err != nil {
		return err
	}
	m, err := k.chains(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	for _, s := range m.Servers {
		if _, err := coord.Await(ctx, k.cfg.Coord, serve.ClosedKey(s.ID)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// chains is the newest shard map.
func (k *Keeper) chains(ctx context.Context) (*place.Chains, error) {
	kv, err := k.cfg.Coord.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil, err
	}
	return place.Decode(kv.Value, uint64(kv.Revision))
}

// reach returns when every group serves: a client has connected to the head of each.
func (k *Keeper) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	for {
		c, err := k.client(ctx, nil)
		switch {
		case err == nil:
			c.Close()
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("keeper: not every group serves within %v: %w", reachWithin, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// client is one beside the trainers, which knows some tables that the servers may lack.
func (k *Keeper) client(ctx context.Context, tables []table.Spec) (*kv.Client, error) {
	m, err := k.chains(ctx)
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, s := range m.Servers {
		addrs = append(addrs, s.Addr)
	}
	return kv.Open(ctx, kv.Config{Servers: addrs, Host: k.cfg.Host, Aside: true, Tables: tables})
}

// load makes the tables that the model has and the servers lack (trainers made them),
// then loads all.
func (k *Keeper) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()
	m, err := ckpt.Open(k.cfg.Load)
	if err != nil {
		return err
	}
	made := slices.DeleteFunc(slices.Clone(m.Tables), func(t table.Spec) bool { // loading compares the others
		return slices.ContainsFunc(k.cfg.Tables.Specs, func(o table.Spec) bool { return o.ID == t.ID })
	})
	c, err := k.client(ctx, made)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	for _, spec := range made {
		t, err := c.Table(spec.Name)
		if err != nil {
			return &serve.InputError{Path: "--load " + k.cfg.Load, Msg: strings.TrimPrefix(err.Error(), "kv: ")}
		}
		if got := t.Spec().ID; got != spec.ID {
			return &serve.InputError{Path: "--load " + k.cfg.Load, Msg: fmt.Sprintf("table %q has the number %d there and %d here; give it `id: %d` in the tables file", spec.Name, spec.ID, got, spec.ID)}
		}
	}
	return c.Load(k.cfg.Load, kv.SaveOptions{Timeout: loadWithin, Partly: true})
}

// save writes the model as it is. Each group is written as it is at one moment; the
// trainers go on meanwhile, so a push that spans groups may be in some of them.
func (k *Keeper) save(ctx context.Context) (err error) {
	defer func() { k.cfg.OnSave(err) }()
	c, err := k.client(ctx, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, c.Close)()
	meta, err := json.Marshal(serve.Meta{Kind: "serve", Seed: k.cfg.Tables.Seed, Saved: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := c.Save(k.cfg.Save, kv.SaveOptions{Timeout: saveWithin, Meta: meta}); err != nil {
		return err
	}
	k.cfg.Log("saved " + k.cfg.Save)
	return nil
}
