package kv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"psrt/rdma"
	"psrt/rdma/dial"
	"psrt/rdma/openfiles"
	"psrt/rdma/secure"
	"psrt/sched/client"
	"psrt/sched/coord"
	"psrt/sched/coord/remote"
	"psrt/sched/psmsg"
)

// Open connects to the job's servers, within the configuration's ConnectTimeout
// and ctx.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, host: cfg.Host, emptied: make(chan struct{}, 1), ended: make(chan struct{}),
		finish: make(chan *op, cfg.Requests+maxLingering), lost: map[int]error{}, tables: map[string]*Table{},
		barriers: barriers{sem: make(chan struct{}, 1)},
		pump:     pump{wake: make(chan struct{}, 1)}}
	c.idle = sync.NewCond(&c.mu)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.watchStalls()
	var token []byte
	if c.host == nil {
		var err error
		if token, err = cfg.token(); err != nil {
			return nil, err
		}
		if c.host, err = cfg.host(token, func(v any) { c.broken(FaultError(v)) }); err != nil {
			return nil, err
		}
		c.ownHost = true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(cfg.ConnectTimeout))
	defer cancel()
	if err := c.open(ctx, token); err != nil {
		c.cancel()
		if c.c != nil {
			c.c.Close()
		}
		if c.ownHost {
			c.host.Close()
		}
		if bug := c.bug.Load(); bug != nil {
			return nil, bug
		}
		return nil, coded(openfiles.Explain(err), Connect)
	}
	return c, nil
}

func (c *Client) open(ctx context.Context, token []byte) error {
	addrs := c.cfg.Servers
	if c.cfg.Coordinator != "" {
		a, err := firstServer(ctx, c.cfg.Coordinator, token)
		if err != nil {
			return err
		}
		addrs = []string{a}
	}
	if err := c.describe(ctx, addrs); err != nil {
		return err
	}
	if n := c.job.Workers; c.cfg.Workers != 0 && c.cfg.Workers != n && !c.job.Open {
		return errorf(BadConfig, "kv: workers is %d here, the servers expect %d: say the same in both places", c.cfg.Workers, n)
	}
	if n := c.job.Workers; c.job.Open && c.cfg.Workers > n {
		return errorf(BadConfig, "kv: workers is %d, the servers take at most %d clients: start psrt serve with a larger --clients", c.cfg.Workers, n)
	}
	if c.cfg.HotRows > 0 && c.job.Staleness == 0 {
		return errorf(BadConfig, "kv: hot_rows %d, but the servers are in bsp, where every pull has all steps before it: leave it (or PSRT_HOT_ROWS) out, or start them with --sync ssp or asp", c.cfg.HotRows)
	}
	if c.cfg.Aside {
		c.cfg.Worker = c.job.Workers
	} else if c.cfg.Worker >= c.job.Workers {
		return errorf(BadConfig, "kv: worker %d, the servers expect workers 0 to %d", c.cfg.Worker, c.job.Workers-1)
	}
	if err := openfiles.Room(c.files()); err != nil {
		return &Error{NoMemory, fmt.Errorf("kv: the connections to the servers: %w", err)}
	}
	stop := context.AfterFunc(ctx, c.cancel) // opening ends with ctx, and the client with Close
	err := c.join(ctx)
	if err == nil {
		c.turn(c.c.BeginReaders)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	} else if err != nil && ctx.Err() != nil {
		err = coded(err, openCode(err))
		err = &Error{CodeOf(err), fmt.Errorf("kv: not all connections stand within %v (connect_timeout): %w", time.Duration(c.cfg.ConnectTimeout), err)}
	}
	if err != nil {
		return coded(err, openCode(err))
	}
	return nil
}

// goneWithin is how long a client that was closed may take to be gone at a server,
// which refuses a second one of its number meanwhile.
const goneWithin = 2 * time.Second

// connect opens the connections.
func (c *Client) connect() (err error) {
	read := client.ReadHead
	if c.cfg.Read == ReadAny && !c.cfg.Aside {
		read = client.ReadAny
	}
	record, err := c.recorder()
	if err != nil {
		return err
	}
	for give := time.Now().Add(goneWithin); ; {
		k, e := client.Open(c.ctx, client.Config{Worker: c.cfg.Worker, Any: c.job.Open && !c.cfg.Aside, Looks: c.cfg.Looks || c.cfg.Aside, Map: c.job.Map, Chains: c.job.Chains, Host: c.host,
			Timeout: time.Duration(c.cfg.ConnectTimeout), Node: -1, Stepped: true, Restarts: true, Lost: c.noticeLoss, Stall: c.stall, Audit: record, Read: read, Turn: c.turn,
			Hot: client.Hot{Rows: c.cfg.HotRows, Staleness: c.cfg.HotStaleness}})
		if err = e; err == nil {
			c.mu.Lock()
			c.c = k
			c.mu.Unlock()
		}
		if !errors.Is(err, dial.ErrRefused) || time.Now().After(give) {
			return err
		}
		select {
		case <-c.ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}

// openCode: a server that was reached and says no is no server out of reach.
func openCode(err error) Code {
	if errors.Is(err, dial.ErrRefused) || errors.As(err, new(*dial.CallError)) {
		return Refused
	}
	return Connect
}

const askAgain = 50 * time.Millisecond

// describe asks the first server that answers what the job is. Servers may still
// be starting: it asks again until ctx ends.
func (c *Client) describe(ctx context.Context, addrs []string) error {
	for {
		var errs []error
		for _, a := range addrs {
			err := c.ask(ctx, a)
			if err == nil {
				return nil
			}
			if errors.Is(err, secure.ErrToken) || errors.Is(err, dial.ErrRefused) || CodeOf(err) != Internal {
				return coded(err, openCode(err))
			}
			errs = append(errs, err)
		}
		select {
		case <-ctx.Done():
			return &Error{Connect, fmt.Errorf("kv: no server answers: %w; is psrt serve running at %s?", errors.Join(errs...), strings.Join(addrs, ", "))}
		case <-time.After(askAgain):
		}
	}
}

func (c *Client) ask(ctx context.Context, addr string) error {
	hello, _ := json.Marshal(psmsg.Hello{Worker: psmsg.Visitor}.Says())
	conn, _, err := c.host.Dial(ctx, addr, hello, 0, func(int, rdma.Domain) (rdma.EndpointConfig, error) {
		return rdma.EndpointConfig{}, errors.New("kv: no endpoint was asked for")
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Call(ctx, psmsg.MethodDescribe, struct{}{}, &c.job); err != nil {
		return err
	}
	if r := c.job.Chains; r != nil { // of a job with replicas; each server knows where all are
		c.job.Map = r.GroupMap()
		for _, s := range r.Servers {
			if s.Addr == "" {
				return errorf(Connect, "kv: the server at %s does not know the address of server %d yet", addr, s.ID)
			}
		}
	}
	m := c.job.Map
	if m == nil || c.job.Workers < 1 {
		return errorf(Refused, "kv: the server at %s describes no job; run the same psrt version everywhere", addr)
	}
	if c.job.Chains != nil {
		return nil
	}
	if len(m.Servers) == 1 { // one server is where it was found, whatever it calls itself
		m.Servers[0].Addr = addr
	}
	for _, s := range m.Servers {
		if s.Addr == "" {
			return errorf(Connect, "kv: the server at %s does not know the address of server %d yet", addr, s.ID)
		}
	}
	return nil
}

// firstServer asks the coordinator where server 0 listens.
func firstServer(ctx context.Context, addr string, token []byte) (string, error) {
	network, address := "tcp", strings.TrimPrefix(addr, "tcp:")
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, address = "unix", path
	}
	for {
		store, err := remote.Dial(ctx, func(ctx context.Context) (net.Conn, error) { return secure.Dial(ctx, network, address, token) })
		if err == nil {
			v, err := coord.Await(ctx, store, "server/0")
			store.Close()
			if err != nil {
				return "", errorf(Connect, "kv: the coordinator at %s does not tell where server 0 is: %w", addr, err)
			}
			return string(v), nil
		}
		if errors.Is(err, secure.ErrToken) {
			return "", coded(err, Token)
		}
		select {
		case <-ctx.Done():
			return "", errorf(Connect, "kv: the coordinator at %s cannot be reached: %w", addr, err)
		case <-time.After(askAgain):
		}
	}
}

// enterSteps makes this worker take part, at every lane in the same step.
func (c *Client) enterSteps(ctx context.Context) error {
	step := (*uint64)(nil)
	for range 16 { // others go on meanwhile, which may move where one that left enters
		high, same := uint64(0), true
		for i := range c.c.Servers() {
			var rep psmsg.EnterReply
			if err := c.c.CallServer(ctx, i, psmsg.MethodEnter, psmsg.EnterRequest{Step: step, Workers: c.quorum()}, &rep); err != nil {
				return err
			}
			if rep.Refused != "" {
				return &refusedEnter{rep}
			}
			same = same && step != nil && rep.Step == *step
			high = max(high, rep.Step)
		}
		if same {
			c.step = *step
			return nil
		}
		step = &high
	}
	return errorf(Clock, "kv: worker %d cannot agree with %d servers on its step; is another process this worker?", c.c.Worker(), c.c.Servers())
}

// files is the least number of files that the connections to all servers take, by TCP
// where any transport may be chosen.
func (c *Client) files() (n int) {
	transport := cmp.Or(c.cfg.Transport, dial.Auto)
	if transport == dial.Auto {
		transport = "tcp"
	}
	if c.job.Chains != nil {
		return len(c.job.Chains.Groups) * dial.PeerFiles("tcp", 1)
	}
	for i := range c.job.Map.Servers {
		n += dial.PeerFiles(transport, c.job.Map.Servers[i].Lanes)
	}
	return n
}
