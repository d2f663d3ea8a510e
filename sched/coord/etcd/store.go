package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"psrt/sched/coord"
)

const (
	// MinTTL is the shortest lease that etcd keeps to; shorter ones are made so long.
	MinTTL = 2 * time.Second

	dialTimeout = 5 * time.Second
	// keepAliveEvery and keepAliveTimeout find a vanished etcd on an idle connection.
	keepAliveEvery   = 5 * time.Second
	keepAliveTimeout = 3 * time.Second
	// An etcd that is back is found within this, however long it was away: gRPC's own pauses
	// between two tries grow to two minutes.
	dialPauseLeast, dialPauseMost = 100 * time.Millisecond, time.Second
)

// Config says how to reach an etcd.
type Config struct {
	Endpoints []string // https://host:port, or http://
	TLS       *tls.Config
	User      string
	Password  string
	// Prefix begins all keys of the job: jobs that share an etcd have different ones.
	Prefix string
}

// Store is a coord.Coordinator.
type Store struct {
	c      *clientv3.Client
	prefix string

	mu       sync.Mutex
	closed   bool
	watchers map[*watcher]struct{}

	stop   chan struct{} // ends the probe; nil where there is none
	probed sync.WaitGroup
}

// Dial connects to an etcd and asks it for something, so that a wrong address,
// certificate or password shows now.
func Dial(ctx context.Context, cfg Config) (*Store, error) {
	life, giveUp := context.WithCancel(context.Background())
	asked, heard := context.WithCancel(ctx)
	why := make(chan error, 1)
	go func() {
		err := cfg.shake(asked)
		if len(cfg.Endpoints) == 1 && ofCertificates(err) {
			giveUp() // the client would go on trying
		}
		why <- err
	}()
	s, err := cfg.open(ctx, life)
	if err == nil {
		heard()
		<-why
		return s, nil
	}
	said := <-why
	if life.Err() != nil { // the question was ended here, and its error says no more
		err = coord.ErrUnavailable
	}
	err = cfg.refused(err, said)
	heard()
	giveUp()
	return nil, err
}

// open is Dial without a word on certificates. The client ends with its life at the latest.
func (cfg *Config) open(ctx, life context.Context) (*Store, error) {
	pauses := backoff.DefaultConfig
	pauses.BaseDelay, pauses.MaxDelay = dialPauseLeast, dialPauseMost
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: dialTimeout})}
	if cfg.User != "" && cfg.Password != "" {
		options = append(options, newTokens(cfg.User, cfg.Password, cfg.Prefix+"hello").options()...)
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: cfg.Endpoints, TLS: cfg.TLS, Context: life, DialOptions: options,
		DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveEvery, DialKeepAliveTimeout: keepAliveTimeout, Logger: zap.NewNop()})
	if err != nil {
		return nil, new(Store).explain(ctx, err)
	}
	s := over(c, cfg.Prefix)
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 2*dialTimeout)
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(life, stop)() // a call's context alone ends it
	if _, err := s.Get(ctx, "hello"); err != nil && !errors.Is(err, coord.ErrNotFound) {
		_ = c.Close() // it has failed already
		return nil, err
	}
	return s, nil
}

// refused says why nothing came of a Dial, with what shake has found.
func (cfg *Config) refused(err, why error) error {
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return fmt.Errorf("etcd at %s: %w; %s", strings.Join(cfg.Endpoints, ","), err, cfg.remedy(err))
}

func over(c *clientv3.Client, prefix string) *Store {
	return &Store{c: c, prefix: prefix, watchers: map[*watcher]struct{}{}}
}

// begin refuses a call that is over before it begins.
func (s *Store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return coord.ErrClosed
	}
	return nil
}

// explain turns etcd's error into ours.
func (s *Store) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	code := status.Code(err)
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		code = e.Code()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case closed:
		return coord.ErrClosed
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", coord.ErrNoLease, err)
	case errors.Is(err, rpctypes.ErrCompacted), errors.Is(err, rpctypes.ErrFutureRev):
		return fmt.Errorf("%w: %w", coord.ErrCompacted, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: %w", coord.ErrTooLarge, err)
	case code == codes.PermissionDenied, code == codes.Unauthenticated, code == codes.InvalidArgument:
		return fmt.Errorf("coord: etcd refuses: %w", err)
	}
	return fmt.Errorf("%w: %w", coord.ErrUnavailable, err)
}

func (s *Store) kv(key string, value []byte, revision, lease int64) coord.KV {
	return coord.KV{Key: strings.TrimPrefix(key, s.prefix), Value: value, Revision: revision, Lease: coord.LeaseID(lease)}
}

// Get implements coord.Coordinator.
func (s *Store) Get(ctx context.Context, key string) (coord.KV, error) {
	if err := s.begin(ctx); err != nil {
		return coord.KV{}, err
	}
	r, err := s.c.Get(ctx, s.prefix+key)
	if err != nil {
		return coord.KV{}, s.explain(ctx, err)
	}
	if len(r.Kvs) == 0 {
		return coord.KV{}, fmt.Errorf("%w: %s", coord.ErrNotFound, key)
	}
	kv := r.Kvs[0]
	return s.kv(string(kv.Key), kv.Value, kv.ModRevision, kv.Lease), nil
}

// List implements coord.Coordinator.
func (s *Store) List(ctx context.Context, prefix string) ([]coord.KV, int64, error) {
	if err := s.begin(ctx); err != nil {
		return nil, 0, err
	}
	r, err := s.c.Get(ctx, s.prefix+prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortAscend))
	if err != nil {
		return nil, 0, s.explain(ctx, err)
	}
	all := make([]coord.KV, 0, len(r.Kvs))
	for _, kv := range r.Kvs {
		all = append(all, s.kv(string(kv.Key), kv.Value, kv.ModRevision, kv.Lease))
	}
	return all, r.Header.Revision, nil
}

// Put implements coord.Coordinator.
func (s *Store) Put(ctx context.Context, key string, value []byte, lease coord.LeaseID) (int64, error) {
	return s.put(ctx, key, value, -1, lease)
}

// CompareAndPut implements coord.Coordinator.
func (s *Store) CompareAndPut(ctx context.Context, key string, value []byte, revision int64, lease coord.LeaseID) (int64, error) {
	if revision < 0 {
		return 0, fmt.Errorf("coord: revision %d of %s, want 0 or more", revision, key)
	}
	return s.put(ctx, key, value, revision, lease)
}

// put sets a key if it is at revision want; -1 is any.
func (s *Store) put(ctx context.Context, key string, value []byte, want int64, lease coord.LeaseID) (int64, error) {
	if err := coord.CheckKey(key); err != nil {
		return 0, err
	}
	if err := coord.CheckValue(key, value); err != nil {
		return 0, err
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	op := clientv3.OpPut(s.prefix+key, string(value), clientv3.WithLease(clientv3.LeaseID(lease)))
	txn := s.c.Txn(ctx)
	if want >= 0 {
		txn = txn.If(clientv3.Compare(clientv3.ModRevision(s.prefix+key), "=", want))
	}
	r, err := txn.Then(op).Commit()
	if err != nil {
		return 0, s.explain(ctx, err)
	}
	if !r.Succeeded {
		return 0, fmt.Errorf("%w: %s is not at %d", coord.ErrConflict, key, want)
	}
	return r.Header.Revision, nil
}

// Delete implements coord.Coordinator.
func (s *Store) Delete(ctx context.Context, key string) (int64, error) {
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	r, err := s.c.Delete(ctx, s.prefix+key)
	if err != nil {
		return 0, s.explain(ctx, err)
	}
	if r.Deleted == 0 {
		return 0, fmt.Errorf("%w: %s", coord.ErrNotFound, key)
	}
	return r.Header.Revision, nil
}

// Grant implements coord.Coordinator.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (coord.LeaseID, error) {
	if err := coord.CheckTTL(ttl); err != nil {
		return 0, err
	}
	if err := s.begin(ctx); err != nil {
		return 0, err
	}
	r, err := s.c.Grant(ctx, int64((max(ttl, MinTTL)+time.Second-1)/time.Second))
	if err != nil {
		return 0, s.explain(ctx, err)
	}
	return coord.LeaseID(r.ID), nil
}

// KeepAlive implements coord.Coordinator.
func (s *Store) KeepAlive(ctx context.Context, lease coord.LeaseID) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	_, err := s.c.KeepAliveOnce(ctx, clientv3.LeaseID(lease))
	return s.explain(ctx, err)
}

// Revoke implements coord.Coordinator.
func (s *Store) Revoke(ctx context.Context, lease coord.LeaseID) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	_, err := s.c.Revoke(ctx, clientv3.LeaseID(lease))
	return s.explain(ctx, err)
}

// Clear removes all keys of the job.
func (s *Store) Clear(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	_, err := s.c.Delete(ctx, s.prefix, clientv3.WithPrefix())
	return s.explain(ctx, err)
}

// Close implements coord.Coordinator. It may be called twice.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	all := s.watchers
	s.watchers = nil
	s.mu.Unlock()
	if s.stop != nil {
		close(s.stop)
	}
	for w := range all {
		w.finish(coord.ErrClosed)
	}
	s.probed.Wait()
	if err := s.c.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
