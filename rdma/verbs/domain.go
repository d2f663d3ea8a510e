package verbs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
	"psrt/rdma/span"
	"psrt/rdma/verbs/pick"
)

// Domain implements rdma.Domain on one port of one device.
type Domain struct {
	cfg     Config
	ctx     *ibv.Context
	attr    ibv.DeviceAttr
	port    int
	portNow ibv.PortAttr // as it was when the domain was opened
	caps    rdma.Caps
	rail    pick.Rail // where Open chose it
	notes   string    // of Open, about the devices that it left out
	regions atomic.Pointer[span.Set[*region]]
	stats   counters
	done    chan struct{}
	// eventful tells watch that an event is awaited; capacity 1.
	eventful chan struct{}
	lastWQE  atomic.Int32   // lastUnknown, lastTold, lastUntold
	wg       sync.WaitGroup // tick and watch
	// downSince is when the port was reported down; watch's.
	downSince time.Time

	// life is held for reading by whoever uses the device outside of an object's
	// own locks, and while an object is destroyed; Close takes it to close the
	// device, and sets gone.
	life sync.RWMutex
	gone bool

	mu        sync.Mutex
	closed    bool
	endpoints map[*endpoint]struct{}
	leaving   map[uint32]*endpoint // those in Close, by queue pair
	queues    map[*queue]struct{}
}

type counters struct {
	sent, received, copiedOut          atomic.Uint64
	posted, completed, failed, flushed atomic.Uint64
	liveRegions, liveEndpoints         atomic.Int64
}

var (
	_ rdma.Domain   = (*Domain)(nil)
	_ rdma.Region   = (*region)(nil)
	_ rdma.Queue    = (*queue)(nil)
	_ rdma.Endpoint = (*endpoint)(nil)
)

// New opens a device.
func New(cfg Config) (*Domain, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	ctx, err := ibv.Open(cfg.Device)
	if err != nil {
		return nil, err
	}
	d := &Domain{
		cfg: cfg, ctx: ctx, done: make(chan struct{}), eventful: make(chan struct{}, 1),
		endpoints: map[*endpoint]struct{}{}, leaving: map[uint32]*endpoint{}, queues: map[*queue]struct{}{},
	}
	d.regions.Store(&span.Set[*region]{})
	if err := d.look(); err != nil {
		return nil, errors.Join(err, ctx.Close())
	}
	d.wg.Go(rdma.Guarded(cfg.OnPanic, d.tick))
	d.wg.Go(rdma.Guarded(cfg.OnPanic, d.watch))
	return d, nil
}

// look finds the port and what device and port can do.
func (d *Domain) look() (err error) {
	if d.attr, err = d.ctx.Attr(); err != nil {
		return err
	}
	first, last := 1, int(d.attr.Ports)
	if d.cfg.Port != 0 {
		first, last = d.cfg.Port, min(d.cfg.Port, last)
	}
	for p := first; p <= last && d.port == 0; p++ {
		a, err := d.ctx.Port(p)
		if err != nil {
			return err
		}
		if a.State == ibv.PortActive {
			d.port, d.portNow = p, a
		}
	}
	if d.port == 0 && d.cfg.MayBeDown && first <= last {
		if d.portNow, err = d.ctx.Port(first); err != nil {
			return err
		}
		d.port = first
	}
	if d.port == 0 {
		return fmt.Errorf("verbs: %s has no active port among %d to %d of its %d: %w; look at `rdma link` and the cable, or choose another by --device and --port",
			d.cfg.Device, first, last, d.attr.Ports, rdma.ErrInvalid)
	}
	if _, err := d.gids(); err != nil && !d.cfg.MayBeDown {
		return err
	}
	inline, depth, err := d.probeDepth()
	if err != nil {
		return err
	}
	d.caps = rdma.Caps{
		Transport:  "verbs",
		Device:     d.cfg.Device,
		Ops:        rdma.Ops(rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm, rdma.OpRead, rdma.OpRecv, rdma.OpRecvImm),
		MaxInline:  inline,
		MaxMessage: int(min(d.portNow.MaxMessage, maxMessage)),
		MaxDepth:   depth,
		SpinMicros: d.cfg.SpinMicros,
		NUMANode:   -1,
		CrossHost:  true,
		// Whether the device takes a dma-buf shows when one is registered.
		DeviceMemory: ibv.HasDMABuf(),
	}
	if d.caps.SpinMicros == 0 {
		d.caps.SpinMicros = defaultSpin
	}
	if d.attr.Atomics != 0 {
		d.caps.Ops |= rdma.Ops(rdma.OpFetchAdd, rdma.OpCompareSwap)
	}
	return nil
}

// gids are read anew for every endpoint: addresses come and go.
func (d *Domain) gids() ([]gid, error) {
	list, err := usable(d.ctx, d.port)
	if err != nil {
		return nil, err
	}
	if i := d.cfg.GIDIndex; d.cfg.PinGID {
		at := slices.IndexFunc(list, func(g gid) bool { return int(g.index) == i })
		if at < 0 {
			return nil, fmt.Errorf("verbs: %s port %d has no GID %d: %w; it has %s", d.cfg.Device, d.port, i, rdma.ErrInvalid, indexed(list))
		}
		list = list[at : at+1]
	}
	if len(list) == 0 && d.portNow.LinkLayer == ibv.LinkEthernet {
		return nil, fmt.Errorf("verbs: %s port %d has no GID yet: %w; give its network interface an address", d.cfg.Device, d.port, rdma.ErrInvalid)
	}
	return list, nil
}

func indexed(list []gid) string {
	text := ""
	for i, g := range list {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d: %s", g.index, g)
	}
	return text
}

func (d *Domain) Caps() rdma.Caps { return d.caps }

// Stats: what is copied is inline payload, into the work queue entry by the
// device's library, before that by Post where Inline is set. ReceivedBytes does
// not hold what peers write or read without a receive: the device does not say.
func (d *Domain) Stats() rdma.Stats {
	s := &d.stats
	return rdma.Stats{
		SentBytes: s.sent.Load(), ReceivedBytes: s.received.Load(),
		Posted: s.posted.Load(), Completed: s.completed.Load(), Failed: s.failed.Load(), Flushed: s.flushed.Load(),
		LiveRegions: s.liveRegions.Load(), LiveEndpoints: s.liveEndpoints.Load(),
		CopiedOutBytes: s.copiedOut.Load(),
	}
}

// Close closes endpoints, queues and regions, then the device.
func (d *Domain) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	endpoints, queues := slices.Collect(maps.Keys(d.endpoints)), slices.Collect(maps.Keys(d.queues))
	d.mu.Unlock()
	close(d.done)
	d.wg.Wait()
	var errs []error
	for _, ep := range endpoints {
		errs = append(errs, ep.Close())
	}
	// An endpoint that its owner closes at the same time is still on its queue.
	d.life.Lock()
	//lint:ignore SA2001 a barrier, not a section
	d.life.Unlock()
	for _, q := range queues {
		errs = append(errs, q.Close())
	}
	for r := range d.regions.Load().All() {
		errs = append(errs, r.Close())
	}
	d.life.Lock()
	defer d.life.Unlock()
	d.gone = true
	return errors.Join(append(errs, d.ctx.Close())...)
}
