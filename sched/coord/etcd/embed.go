package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"

	"psrt/sched/coord"
)

// The only member waits for nobody: short ticks save it most of a second at the
// start. Leases then end within a second of their time.
const (
	tickMillis     = 10
	electionMillis = 50
	// requestBytes holds the largest key and value.
	requestBytes = coord.MaxValue + coord.MaxKey + 64<<10
)

// segmentBytes is what etcd sets aside on disk for its log at a time, twice. A job's
// keys are few and small, and etcd's own 64 MB are more than some scratch has.
const segmentBytes = 4 << 20

// smallSegments makes them so: it is etcd's variable, for all of a process, and the
// etcds that run read it, so that it is set once.
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })

// Embedded is an etcd in this process.
type Embedded struct {
	e    *embed.Etcd
	over *atomic.Bool // see complaints
}

// Start opens the etcd whose data are in dir, which only this user may enter; it
// is made where it is not there yet. client, "http://host:port", is where other
// processes reach it; "": nowhere.
func Start(ctx context.Context, dir, client string) (*Embedded, error) {
	cfg, over, err := settings(dir)
	if err != nil {
		return nil, err
	}
	cfg.Name = "psrt"
	cfg.TickMs, cfg.ElectionMs = tickMillis, electionMillis
	// Both must be somewhere: sockets in a folder that nobody else enters.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:1"} // a name; nobody connects
	cfg.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "peer")}}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	if client != "" {
		u, err := url.Parse(client)
		if err != nil {
			return nil, fmt.Errorf("etcd: %q: %w", client, err)
		}
		cfg.ListenClientUrls = []url.URL{*u}
	}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	return start(ctx, dir, cfg, over)
}

// settings are those of every etcd in this process, whose client side is a socket in dir.
// over has it complain of nothing any more.
func settings(dir string) (cfg *embed.Config, over *atomic.Bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("etcd: the data directory: %w", err)
	}
	over = &atomic.Bool{}
	cfg = embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "data")
	cfg.MaxRequestBytes = requestBytes
	cfg.EnableGRPCGateway = false
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(complaints{dir: dir, to: os.Stderr, over: over}))
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, "client")}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	return cfg, over, nil
}

// start begins one and waits until it answers.
func start(ctx context.Context, dir string, cfg *embed.Config, over *atomic.Bool) (*Embedded, error) {
	e, err := begin(dir, cfg, over)
	if err == nil {
		err = e.Ready(ctx)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// begin returns when its peers are answered; see Ready.
func begin(dir string, cfg *embed.Config, over *atomic.Bool) (*Embedded, error) {
	for _, name := range []string{"peer", "client"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) { // of a killed process
			return nil, err
		}
	}
	smallSegments()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd: starting in %s: %w; does another process use it, or is it full?", dir, err)
	}
	go func() { // it wants its errors read until it is closed
		for range e.Err() {
		}
	}()
	return &Embedded{e, over}, nil
}

// Ready waits until it answers, which a member of several does when most of them do. With
// an error it has ended.
func (e *Embedded) Ready(ctx context.Context) error {
	select {
	case <-e.e.Server.ReadyNotify():
		return nil
	case <-ctx.Done():
		_ = e.Leave() // Close alone waits until it is ready
		return fmt.Errorf("etcd: in %s is not ready: %w", filepath.Dir(e.e.Config().Dir), context.Cause(ctx))
	}
}

// Abandon says that its folder may go from here on, though it goes on for a moment.
func (e *Embedded) Abandon() { e.over.Store(true) }

// Store gives a handle to it, under a prefix. Close it before the etcd.
func (e *Embedded) Store(prefix string) *Store {
	s := over(v3client.New(e.e.Server), prefix)
	s.stop = make(chan struct{})
	s.probed.Go(s.probe)
	return s
}

// Close ends the etcd; its data stay.
func (e *Embedded) Close() error {
	e.e.Close()
	return nil
}

// Leave ends a member without a word to the others, who may be gone already.
func (e *Embedded) Leave() error {
	e.e.Server.HardStop()
	return e.Close()
}
