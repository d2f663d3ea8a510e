package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/sched/coord"
	"psrt/sched/server"
	"psrt/sched/stall"
	"psrt/sched/train/model"
)

// KeyDone is there when the workers are done.
const KeyDone = "done"

// RunServer is a server rank's life: make the lanes, listen, serve until the
// workers are done.
func RunServer(ctx context.Context, job *Job, rank Rank) error {
	if rank.Weight != 0 && rank.Weight != 1 && !job.Chained() {
		return &InputError{fmt.Errorf("train: server %d has --weight %g, and in this job all servers have equal parts of the rows: give rank 0 --groups or --replicas, or leave --weight out", rank.Index, rank.Weight)}
	}
	if job.Predict != nil {
		return runRows(ctx, job, rank)
	}
	m, err := model.New(job.Model)
	if err != nil {
		return err
	}
	placement, err := job.placement(nil)
	if err != nil {
		return err
	}
	dense, err := job.dense(m)
	if err != nil {
		return err
	}
	merges, err := job.merges()
	if err != nil {
		return err
	}
	device, release := deviceForServer(job, rank)
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg := server.Config{
		ID: rank.Index, Map: placement, Host: rank.Host, Listen: rank.Listen,
		Workers: job.Members(), Name: job.MemberName, Staleness: job.staleness(), Retain: job.Survives(), Modes: job.serverModes(), Merges: merges,
		Seed: job.Seed, Tables: []tableSpec{job.table(m)}, Dense: dense,
		Node: rank.Node, MaxBytes: job.MaxBytes, Tracked: job.Checkpoint != nil || job.Lifecycle != nil, Storage: job.Storage.forServer(job, job.table(m).RowBytes()), Watch: job.watch(), Audit: job.Audit,
		Device: device,
		Second: rank.Index > 0,
		Note: func(note string) {
			rank.emit(Event{Note: fmt.Sprintf("server %d: %s", rank.Index, note)})
		},
		Warn: func(warning string) {
			rank.emit(Event{Warning: fmt.Sprintf("server %d: %s", rank.Index, warning)})
		},
		ReconnectFor: job.reconnectFor(),
		OnWorkerLost: func(worker int, cause error) {
			cancel(&PeerLost{job.MemberName(worker) + " broke its connection and did not come back", cause})
		},
		OnHungUp: rank.OnHungUp,
	}
	if job.Chained() {
		return runMember(ctx, job, rank, cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		return err
	}
	return serveUntilDone(ctx, rank, s)
}

// serveUntilDone says where a server is, and serves until the workers are done.
func serveUntilDone(ctx context.Context, rank Rank, s *server.Server) error {
	if err := sayWhere(ctx, rank, s); err != nil {
		over, stop := context.WithCancel(ctx)
		stop()
		return errors.Join(err, s.Serve(over)) // ends at once, and gives back what it holds: the next may want it
	}
	return serveOn(ctx, rank, s)
}

// sayWhere tells the workers where a server is.
func sayWhere(ctx context.Context, rank Rank, s *server.Server) error {
	_, err := rank.Coord.Put(ctx, serverKey(rank.Index), []byte(s.Addr()), 0)
	return err
}

// serveOn serves until the workers are done.
func serveOn(ctx context.Context, rank Rank, s *server.Server) error {
	rank.Metrics.Server(s)
	rank.Metrics.Ready()
	rank.Stall.From(func(ctx context.Context, after time.Duration) []stall.Wait { return s.Waits(ctx, -1, after) })
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if _, err := coord.AwaitThrough(serving, rank.Coord, KeyDone); err == nil {
			stop()
		}
	}()
	if err := s.Serve(serving); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// PeerLost means that a rank ends because it lost another one.
type PeerLost struct {
	What  string
	Cause error
}

func (p *PeerLost) Error() string {
	if p.Cause == nil {
		return "train: " + p.What
	}
	return fmt.Sprintf("train: %s: %v", p.What, p.Cause)
}

func (p *PeerLost) Unwrap() error { return p.Cause }
