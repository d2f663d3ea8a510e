package chain

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"psrt/bench/cable"
	"psrt/bench/child"
	"psrt/rdma/secure"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/place"
	"psrt/sched/replica"
)

// cluster is the servers of a part of a run, and their store.
type cluster struct {
	st               *station
	groups, replicas int
	store            *local.Store
	listener         *secure.Listener
	remote           *remote.Server
	members          map[int]*process
	started          time.Duration // that the slowest of the first servers took to register
}

// process is a server's.
type process struct {
	child *child.Child
	kill  context.CancelFunc
	says  serverSays
}

func (st *station) newCluster(ctx context.Context, groups, replicas int) (c *cluster, err error) {
	c = &cluster{st: st, groups: groups, replicas: replicas, store: local.New(), members: map[int]*process{}}
	if c.listener, err = secure.Listen("tcp", net.JoinHostPort(st.address(), "0"), st.token); err != nil {
		return c, err
	}
	c.remote = remote.Serve(c.listener, c.store)
	began := time.Now()
	for id := range servers {
		if err := c.begin(ctx, id); err != nil {
			return c, err
		}
	}
	_, err = c.until(ctx, "the first map", func(m *place.Chains) bool { return whole(m, replicas) })
	c.started = time.Since(began)
	return c, err
}

// begin starts a server's process, again if need be.
func (c *cluster) begin(ctx context.Context, id int) error {
	p, err := c.st.server(ctx, serverOrder{ID: id, Store: c.listener.Addr().String(), Groups: c.groups, Replicas: c.replicas})
	if err != nil {
		return fmt.Errorf("server %d: %w", id, err)
	}
	c.members[id] = p
	return nil
}

// server starts a server's process.
func (st *station) server(ctx context.Context, o serverOrder) (*process, error) {
	ctx, kill := context.WithCancel(ctx)
	p := &process{kill: kill}
	var err error
	if p.child, err = cable.Start(ctx, st.cfg.Part, cable.Server, cable.Inside(st.cfg.Link)); err != nil {
		kill()
		return nil, err
	}
	o.Config, o.Token = *st.cfg, st.token
	if o.Cable, err = st.lay(p.child.PID()); err == nil {
		err = p.ask(o)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *process) ask(order any) error {
	p.says = serverSays{}
	if err := errors.Join(p.child.Tell(order), p.child.Hear(&p.says)); err != nil {
		return err
	}
	if p.says.Err != "" {
		return errors.New(p.says.Err)
	}
	return nil
}

// close ends it, without a word to it.
func (p *process) close() {
	p.kill()
	p.child.Close(p.kill)
}

// cut kills a server as kill -9 does, and says when.
func (c *cluster) cut(id int) time.Time {
	at := time.Now()
	c.members[id].close()
	delete(c.members, id)
	return at
}

func (c *cluster) close() {
	for _, p := range c.members {
		p.close()
	}
	if c.remote != nil {
		c.remote.Close()
	}
	c.store.Close()
}

// chains is the map in the store; nil: none as yet.
func (c *cluster) chains(ctx context.Context) *place.Chains {
	kv, err := c.store.Get(ctx, replica.KeyMap)
	if err != nil {
		return nil
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		return nil
	}
	return m
}

// until waits for a map.
func (c *cluster) until(ctx context.Context, what string, is func(*place.Chains) bool) (*place.Chains, error) {
	for deadline := time.Now().Add(patience); ; {
		m := c.chains(ctx)
		switch {
		case m != nil && is(m):
			return m, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("chain: not %s within %v", what, patience)
		}
		for id, p := range c.members {
			if ended(p) {
				return nil, fmt.Errorf("chain: server %d has ended: %w", id, p.ask(struct{}{}))
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func ended(p *process) bool {
	select {
	case <-p.child.Ended():
		return true
	default:
		return false
	}
}

// whole says that every group has as many members as it should, and nobody joins.
func whole(m *place.Chains, replicas int) bool {
	for i := range m.Groups {
		if len(m.Groups[i].Chain) != replicas || m.Groups[i].Joiner != nil {
			return false
		}
	}
	return true
}
