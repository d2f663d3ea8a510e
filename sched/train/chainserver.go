package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	dirs, err := ownDirs(base.Storage, rank.Index)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(dirs)) }()
	part := job.partOf(base, dirs)
	m, err := replica.New(replica.Config{
		ID: rank.Index, Host: rank.Host, Listen: rank.Listen, Coord: rank.Coord,
		Server: place.Server{Lanes: job.Lanes, Host: rank.Label, Rack: rank.Rack},
		First:  job.chains(), FirstServers: job.Servers,
		Open: func(seat replica.Seat) (replica.Group, error) {
			cfg := part
			cfg.ID, cfg.Map = seat.Group, seat.Map.GroupMap()
			cfg.Chain = &server.ChainConfig{Self: seat.Self, Group: seat.Group, Dial: seat.Dial, OnReport: seat.OnReport}
			s, err := server.New(cfg)
			if err != nil {
				return nil, err
			}
			return s, nil
		},
		Note: func(note string) { rank.emit(Event{Note: fmt.Sprintf("server %d: %s", rank.Index, note)}) },
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
	rank.Metrics.Server(server.Groups{ID: rank.Index, All: servers})
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

// partOf is what one group's server has of a server's memory and disks: so that there
// is room for the groups of one more server that has died.
func (j *Job) partOf(whole server.Config, dirs []string) server.Config {
	part, n := whole, int64(j.groupsEach())
	part.MaxBytes /= n
	if whole.Storage != nil {
		s := *whole.Storage
		s.Dirs = dirs
		s.LimitBytes /= n
		part.Storage = &s
	}
	if whole.Device != nil {
		d := *whole.Device
		d.MaxBytes /= n
		part.Device = &d
	}
	part.Watch = server.WatchOff // it would look at each connection once for each group
	return part
}

// groupsEach is how many groups a server may have to have.
func (j *Job) groupsEach() int {
	left := max(1, j.Servers-1)
	return min(j.Groups, (j.Groups*max(1, j.Replicas)+left-1)/left)
}

// ownDirs are a server's own on each device: groups have replicas on other servers
// that may be of the same host. What a process before it left is removed.
func ownDirs(s *server.Storage, index int) (dirs []string, err error) {
	if s == nil {
		return nil, nil
	}
	for _, d := range s.Dirs {
		dirs = append(dirs, filepath.Join(d, fmt.Sprintf("psrt-replica%d", index)))
	}
	return dirs, removeAll(dirs)
}

func removeAll(dirs []string) (err error) {
	for _, d := range dirs {
		err = errors.Join(err, os.RemoveAll(d))
	}
	return err
}
