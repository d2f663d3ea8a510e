package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"psrt/rdma"
	"psrt/rdma/dial"
)

// Member is a process that can be in groups of one name, one after the other. It
// listens for the ranks above its own.
type Member struct {
	host     *dial.Host
	listener *dial.Listener
	name     string
	opt      Options
	stop     context.CancelFunc
	done     chan struct{} // the accepting has ended

	mu      sync.Mutex
	epoch   uint64               // newest that was joined here
	joining map[int]chan arrival // by rank, while that group is made
	early   []arrival            // of epochs to come
}

// arrival is a rank that dialled this one.
type arrival struct {
	in    *dial.Incoming
	hello hello
}

// maxEarly bounds the ranks that wait for this one to join too. They dial again.
const maxEarly = 2 * maxRanks

// hello is what a rank says to one below it.
type hello struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	Epoch   uint64 `json:"epoch"`
	From    int    `json:"from"`
	To      int    `json:"to"`
	Size    int    `json:"size"`
	// Hosts is Place.hostsSum.
	Hosts string `json:"hosts,omitempty"`
}

const version = 2

var errPassed = errors.New("ring: the group of that epoch is made or has passed: join the newest")

// Listen makes a member of groups of that name. host may be used for other things
// too, and outlives the member.
func Listen(host *dial.Host, addr, name string, opt Options) (*Member, error) {
	opt, err := opt.complete()
	if err != nil {
		return nil, err
	}
	l, err := host.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("ring: group %q: %w", name, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Member{host: host, listener: l, name: name, opt: opt, stop: stop, done: make(chan struct{})}
	go rdma.Guarded(host.OnPanic(), func() { defer close(m.done); m.accept(ctx) })()
	return m, nil
}

// Addr is what the others must be able to find for this rank.
func (m *Member) Addr() string { return m.listener.Addr() }

// Close stops listening. Groups that were joined go on.
func (m *Member) Close() error {
	m.stop()
	err := m.listener.Close()
	<-m.done
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.early {
		_ = a.in.Reject(errors.New("ring: this rank leaves"))
	}
	m.early = nil
	return err
}

func (m *Member) accept(ctx context.Context) {
	for {
		in, err := m.listener.Accept(ctx)
		if err != nil {
			return
		}
		a := arrival{in: in}
		if err := m.route(&a); err != nil {
			_ = in.Reject(err)
		}
	}
}

func (m *Member) route(a *arrival) error {
	if err := json.Unmarshal(a.in.Hello, &a.hello); err != nil {
		return fmt.Errorf("ring: hello: %w", err)
	}
	h := &a.hello
	switch {
	case h.Version != version:
		return dial.Final(fmt.Errorf("ring: version %d, this program speaks %d: run the same psrt everywhere", h.Version, version))
	case h.Name != m.name:
		return fmt.Errorf("ring: this is a rank of group %q, not of %q", m.name, h.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case h.Epoch > m.epoch:
		if len(m.early) == maxEarly {
			return fmt.Errorf("ring: %d ranks wait already for this one to join", maxEarly)
		}
		m.early = append(m.early, *a)
		return nil
	case h.Epoch == m.epoch && m.joining != nil:
		return m.hand(*a)
	}
	return errPassed
}

// hand gives an arrival to the Join that waits for it. With mu.
func (m *Member) hand(a arrival) error {
	ch, ok := m.joining[a.hello.From]
	if !ok {
		return fmt.Errorf("ring: rank %d of %d has no reason to dial this one", a.hello.From, a.hello.Size)
	}
	select {
	case old := <-ch: // it gave up, and dials again
		_ = old.in.Reject(errPassed)
	default:
	}
	ch <- a
	return nil
}

// expect begins the joining of a group.
func (m *Member) expect(p *Place) (map[int]chan arrival, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining != nil || p.Epoch <= m.epoch {
		return nil, fmt.Errorf("ring: group %q: epoch %d cannot be joined: %d was before it, or is being joined", m.name, p.Epoch, m.epoch)
	}
	m.epoch, m.joining = p.Epoch, map[int]chan arrival{}
	for r := p.Rank + 1; r < p.Size; r++ {
		m.joining[r] = make(chan arrival, 1)
	}
	early := m.early
	m.early = nil
	for _, a := range early {
		err := errPassed
		switch {
		case a.hello.Epoch > m.epoch:
			m.early = append(m.early, a)
			continue
		case a.hello.Epoch == m.epoch:
			err = m.hand(a)
		}
		if err != nil {
			_ = a.in.Reject(err)
		}
	}
	return m.joining, nil
}

// joined ends it.
func (m *Member) joined() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ch := range m.joining {
		select {
		case a := <-ch:
			_ = a.in.Reject(errPassed)
		default:
		}
	}
	m.joining = nil
}
