package shm

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/invariant"
)

// Domain is this process's end of shared-memory transport.
type Domain struct {
	cfg       Config
	id        id
	socket    string
	listener  *net.UnixListener
	tableFile *os.File // read-only, for peers
	check     invariant.CloseChecker
	ctx       context.Context // ends with Close
	stop      context.CancelFunc
	running   sync.WaitGroup // the accept loop and its handshakes

	// regions is replaced under mu, read without.
	regions atomic.Pointer[regionSet]

	failed, flushed atomic.Uint64
	// patient are the Waits that spin for longer than Config.SpinMicros, each of
	// which keeps a processor from other goroutines: half of them at most.
	patient atomic.Int32

	// mu guards what follows. It is taken before Queue.mu and Endpoint.mu,
	// never while one of them is held.
	mu        sync.Mutex
	closed    bool
	table     *regionTable
	nextEntry uint64 // table entry to try first
	byKey     map[uint64]*region
	queues    []*Queue
	endpoints map[id]*Endpoint
	views     map[viewKey]*view
	ended     rdma.Stats // of endpoints that are gone
}

var _ rdma.Domain = (*Domain)(nil)

// New opens a domain and its listening socket.
func New(cfg Config) (rdma.Domain, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	d := &Domain{cfg: cfg, byKey: map[uint64]*region{}, endpoints: map[id]*Endpoint{},
		views: map[viewKey]*view{}}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.regions.Store(&regionSet{})
	rand.Read(d.id[:])
	if d.table, d.tableFile, err = newTable(); err != nil {
		return nil, err
	}
	d.socket = fmt.Sprintf("@psrt-shm-%x", d.id)
	if cfg.Dir != "" {
		d.socket = fmt.Sprintf("%s/psrt-%x.sock", cfg.Dir, d.id)
	}
	d.listener, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: d.socket, Net: "unixpacket"})
	if err != nil {
		d.tableFile.Close()
		d.table.seg.unmap()
		return nil, fmt.Errorf("shm: listening for peers of %q: %w", cfg.Purpose, err)
	}
	d.check.Open("shm domain", cfg.Purpose)
	d.running.Add(1)
	go rdma.Guarded(cfg.OnPanic, d.accept)()
	return d, nil
}

// Caps describes the transport: everything, on one host.
func (d *Domain) Caps() rdma.Caps {
	return rdma.Caps{
		Transport: "shm",
		Ops: rdma.Ops(rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead,
			rdma.OpFetchAdd, rdma.OpCompareSwap),
		Mapped:     true,
		MaxInline:  maxInline,
		MaxMessage: maxMessage,
		MaxDepth:   maxDepth,
		SpinMicros: d.cfg.SpinMicros,
		NUMANode:   -1,
	}
}

// Stats sums what the endpoints counted, the closed ones too.
func (d *Domain) Stats() rdma.Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.ended
	for _, e := range d.endpoints {
		e.addCounts(&s)
	}
	s.Failed, s.Flushed = d.failed.Load(), d.flushed.Load()
	s.LiveRegions, s.LiveEndpoints = int64(len(d.byKey)), int64(len(d.endpoints))
	return s
}

// children copies the lists; with mu.
func (d *Domain) children() ([]*Endpoint, []*Queue) {
	endpoints := make([]*Endpoint, 0, len(d.endpoints))
	for _, e := range d.endpoints {
		endpoints = append(endpoints, e)
	}
	return endpoints, slices.Clone(d.queues)
}

// Close closes endpoints, queues and regions, in that order.
func (d *Domain) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	endpoints, queues := d.children()
	d.mu.Unlock()
	d.check.CloseOnce()

	d.stop()
	d.listener.Close() // removes the socket's file
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, e := range endpoints {
		keep(e.Close())
	}
	for _, q := range queues {
		keep(q.Close())
	}
	d.mu.Lock()
	regions := make([]*region, 0, len(d.byKey))
	for _, r := range d.byKey {
		regions = append(regions, r)
	}
	d.mu.Unlock()
	for _, r := range regions {
		keep(r.Close())
	}
	d.running.Wait()
	d.tableFile.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	keep(d.table.seg.unmap())
	return first
}
