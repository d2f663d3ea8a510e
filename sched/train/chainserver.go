package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"psrt/sched/coord"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/server"
	"psrt/sched/stall"
)

// runMember is a server rank's life in a job with chains: it has the groups that the
// shard map gives it, until the workers are done or it was asked to leave.
func runMember(ctx context.Context, job *Job, rank Rank, base server.Config) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	storage, leave, err := base.Storage.Own(rank.Index)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	base.Storage = storage
	part := base.Part(job.chains().Most(job.Servers))
	var noted atomic.Bool
	m, err := replica.New(replica.Config{
		ID: rank.Index, Host: rank.Host, Listen: rank.Listen, Coord: rank.Coord,
		Server: place.Server{Lanes: job.Lanes, Host: rank.Label, Rack: rank.Rack, Weight: rank.Weight},
		First:  job.chains(), FirstServers: job.Servers,
		Open: func(seat replica.Seat) (replica.Group, error) {
			cfg := part
			cfg.ID, cfg.Map, cfg.Second = seat.Group, seat.Map.GroupMap(), noted.Swap(true) || cfg.Second
			cfg.Chain = &server.ChainConfig{Self: seat.Self, Group: seat.Group, Dial: seat.Dial, OnReport: seat.OnReport, Unheard: seat.Unheard, StoreAway: seat.StoreAway}
			s, err := server.New(cfg)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Note: func(note string) { rank.emit(Event{Warning: fmt.Sprintf("server %d: %s", rank.Index, note)}) },
	})
	if err != nil {
		return err
	}
	servers := func() (all []*server.Server) {
		groups := m.Groups()
		for _, g := range slices.Sorted(maps.Keys(groups)) {
			all = append(all, groups[g].(*server.Server))
		}
		return all
	}
	if hungUp := base.OnHungUp; hungUp != nil {
		// It leaves a group alone that another server leads from then on.
		part.OnHungUp = func(worker int, _ func() bool) {
			hungUp(worker, func() bool {
				return slices.ContainsFunc(servers(), func(s *server.Server) bool { return s.Connected(worker) })
			})
		}
	}
	rank.Metrics.Server(server.Groups{ID: rank.Index, All: servers})
	rank.Metrics.Ready()
	rank.Stall.From(func(ctx context.Context, after time.Duration) (all []stall.Wait) {
		for _, s := range servers() {
			all = append(all, s.Waits(ctx, -1, after)...)
		}
		return all
	})
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if _, err := coord.AwaitThrough(serving, rank.Coord, KeyDone); err == nil {
			m.Over()
			stop()
		}
	}()
	if err := m.Run(serving); err != nil {
		return err
	}
	return context.Cause(ctx)
}
