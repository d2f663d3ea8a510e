package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"psrt/sched/coord"
)

// older is what an etcd 3.4 makes of tokens: it knows those that it has given since it was
// started, gives none to who shows another, and calls a watch with another denied.
type older struct {
	etcdserverpb.UnimplementedAuthServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	life  int
	mu    sync.Mutex
	given map[string]bool
	asked atomic.Int32
	// silent: it answers nobody who asks for a token.
	silent atomic.Bool
}

func startOlder(t *testing.T, at string, life int) (addr string, stop func(), o *older) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	o = &older{life: life, given: map[string]bool{}}
	s := grpc.NewServer()
	etcdserverpb.RegisterAuthServer(s, o)
	etcdserverpb.RegisterKVServer(s, o)
	etcdserverpb.RegisterWatchServer(s, o)
	go func() { _ = s.Serve(l) }()
	stop = sync.OnceFunc(s.Stop)
	t.Cleanup(stop)
	return l.Addr().String(), stop, o
}

// shown says whether a token came with a call, and whether it is one that was given.
func (o *older) shown(ctx context.Context) (some, good bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	all := md.Get(rpctypes.TokenFieldNameGRPC)
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(all) > 0, len(all) > 0 && o.given[all[0]]
}

func (o *older) Authenticate(ctx context.Context, r *etcdserverpb.AuthenticateRequest) (*etcdserverpb.AuthenticateResponse, error) {
	if some, good := o.shown(ctx); some && !good {
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	if o.silent.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r.Name != "ps" || r.Password != "secret" {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	token := fmt.Sprintf("%d.%d", o.life, o.asked.Add(1))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.given[token] = true
	return &etcdserverpb.AuthenticateResponse{Header: &etcdserverpb.ResponseHeader{}, Token: token}, nil
}

func (o *older) Range(ctx context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	switch some, good := o.shown(ctx); {
	case !some:
		return nil, rpctypes.ErrGRPCUserEmpty
	case !good:
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{Revision: int64(o.life)}, Count: 1,
		Kvs: []*mvccpb.KeyValue{{Key: r.Key, Value: fmt.Appendf(nil, "life %d", o.life), ModRevision: int64(o.life)}}}, nil
}

func (o *older) Watch(s etcdserverpb.Watch_WatchServer) error {
	_, good := o.shown(s.Context())
	for id := int64(0); ; id++ {
		if _, err := s.Recv(); err != nil {
			return err
		}
		r := &etcdserverpb.WatchResponse{Header: &etcdserverpb.ResponseHeader{}, WatchId: id, Created: true}
		if !good {
			r.WatchId, r.Canceled, r.CancelReason = -1, true, rpctypes.ErrGRPCPermissionDenied.Error()
		}
		if err := s.Send(r); err != nil {
			return err
		}
	}
}

// An etcd that is started again has forgotten all tokens. Its jobs go on.
func TestTokensForgotten(t *testing.T) {
	addr, stop, _ := startOlder(t, "127.0.0.1:0", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Dial(ctx, Config{Endpoints: []string{"http://" + addr}, User: "ps", Password: "secret", Prefix: "/job/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	watched := func() {
		t.Helper()
		w, err := s.Watch(ctx, "a/", 0)
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	watched()
	stop()
	_, _, again := startOlder(t, addr, 2)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				kv, err := s.Get(ctx, "x")
				switch {
				case err == nil && string(kv.Value) == "life 2":
					return
				case err == nil || !errors.Is(err, coord.ErrUnavailable):
					t.Errorf("it gives %q, %v", kv.Value, err)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
	watched()
	if n := again.asked.Load(); n < 1 || n > 8 {
		t.Errorf("it was asked for %d tokens", n)
	}

	// So it is where a watch is the first to come.
	again.mu.Lock()
	again.given = map[string]bool{}
	again.mu.Unlock()
	watched()
}

// A password that is no good any more is told as such, and is not tried for ever.
func TestTokenRefused(t *testing.T) {
	addr, _, o := startOlder(t, "127.0.0.1:0", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err := Dial(ctx, Config{Endpoints: []string{"http://" + addr}, User: "ps", Password: "guess", Prefix: "/job/"})
	if err == nil || errors.Is(err, coord.ErrUnavailable) || o.asked.Load() != 0 {
		t.Errorf("a wrong password: %v", err)
	}
}

// An etcd that answers nobody who asks for a token keeps no call longer than that has time for,
// also not one that waits for another's asking.
func TestTokenNeverComes(t *testing.T) {
	addr, _, o := startOlder(t, "127.0.0.1:0", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := Dial(ctx, Config{Endpoints: []string{"http://" + addr}, User: "ps", Password: "secret", Prefix: "/job/"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o.mu.Lock()
	o.given = map[string]bool{}
	o.mu.Unlock()
	o.silent.Store(true)
	patient, giveUp := context.WithCancel(ctx)
	first := make(chan error, 1)
	go func() { _, err := s.Get(patient, "x"); first <- err }()
	time.Sleep(50 * time.Millisecond)
	short, over := context.WithTimeout(ctx, 50*time.Millisecond)
	defer over()
	done := make(chan error, 1)
	go func() { _, err := s.Get(short, "x"); done <- err }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it gives %v", err)
		}
	case <-time.After(2 * time.Second):
		t.Error("a call of 50 ms waits for another's token")
	}
	giveUp()
	if err := <-first; err == nil {
		t.Error("it was answered")
	}
}
