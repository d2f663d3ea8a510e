package exchange

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
)

const (
	version      = 1
	landingBytes = 512 << 10
	maxRow       = 256 << 20 // bytes of one packed row
	maxRows      = 64 << 10  // asked for at once

	// DefaultTimeout is how long another member may say nothing.
	DefaultTimeout = 2 * time.Minute
)

// Options of a Member.
type Options struct {
	Me, Size int
	Timeout  time.Duration // 0: DefaultTimeout
	Node     int           // NUMA node of the memory, -1: any
	// Address is where a member listens; it may wait, and is asked again when a
	// connection has ended.
	Address func(ctx context.Context, member int) (string, error)
}

// Pack is dataset.RowExchange's.
type Pack func(rows []uint32, into []byte) (n, bytes int, err error)

// Member is a worker among those that exchange rows.
type Member struct {
	host     *dial.Host
	opt      Options
	listener *dial.Listener
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	offered  chan struct{} // closed by Offer
	pack     Pack
	peers    []peer // by member; each is its fetcher's

	mu       sync.Mutex
	incoming int // connections being served
	moved    int64
}

// hello is what a member says to one that it wants rows from.
type hello struct {
	Version  int `json:"version"`
	From, To int
}

// Listen makes a member. host may be used for other things too, and outlives it.
func Listen(host *dial.Host, addr string, opt Options) (*Member, error) {
	if opt.Size < 1 || opt.Me < 0 || opt.Me >= opt.Size || opt.Address == nil {
		return nil, fmt.Errorf("exchange: member %d of %d (addresses known: %v)", opt.Me, opt.Size, opt.Address != nil)
	}
	opt.Timeout = cmp.Or(opt.Timeout, DefaultTimeout)
	l, err := host.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("exchange: %w", err)
	}
	m := &Member{host: host, opt: opt, listener: l, offered: make(chan struct{}), peers: make([]peer, opt.Size)}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.work.Go(rdma.Guarded(host.OnPanic(), m.accept))
	return m, nil
}

// Addr is what the others must be able to find for this member.
func (m *Member) Addr() string { return m.listener.Addr() }

// Offer lets the others have rows. It is called once.
func (m *Member) Offer(pack func(rows []uint32, into []byte) (n, bytes int, err error)) {
	m.pack = pack
	close(m.offered)
}

// Moved is the bytes of rows that came from others.
func (m *Member) Moved() int64 {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

// Close ends all, once. No Fetch may be running. A nil Member is closed.
func (m *Member) Close() error {
	if m == nil {
		return nil
	}
	m.stop()
	err := m.listener.Close()
	m.work.Wait()
	for i := range m.peers {
		err = errors.Join(err, m.peers[i].close())
	}
	return err
}

func (m *Member) accept() {
	for {
		in, err := m.listener.Accept(m.ctx)
		if err != nil {
			return
		}
		from, err := m.admit(in.Hello)
		if err != nil {
			_ = in.Reject(err)
			continue
		}
		m.work.Go(rdma.Guarded(m.host.OnPanic(), func() {
			defer m.left()
			m.serve(in, from)
		}))
	}
}

// admit says who comes, and counts it.
func (m *Member) admit(word []byte) (from int, err error) {
	var h hello
	if err := json.Unmarshal(word, &h); err != nil {
		return 0, fmt.Errorf("exchange: hello: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case h.Version != version:
		return 0, fmt.Errorf("exchange: version %d, this program speaks %d: run the same psrt everywhere", h.Version, version)
	case h.To != m.opt.Me || h.From < 0 || h.From >= m.opt.Size || h.From == m.opt.Me:
		return 0, fmt.Errorf("exchange: worker %d of %d has no rows for worker %d, which looks for worker %d", m.opt.Me, m.opt.Size, h.From, h.To)
	case m.incoming >= 2*m.opt.Size: // one each, and one each that has ended and is not noticed yet
		return 0, fmt.Errorf("exchange: worker %d serves %d connections already; they are one for each other worker", m.opt.Me, m.incoming)
	}
	m.incoming++
	return h.From, nil
}

func (m *Member) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.incoming--
}
