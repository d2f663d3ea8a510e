package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"psrt/sched/coord"
	"psrt/sched/place"
	"psrt/sched/psmsg"
)

// Group is several servers that trainers use as one. They meet at a coordinator:
//
//	server/<i>     where server i listens
//	serve/<i>      its settings, which must be server 0's
//	save/<n>       server 0's n-th order to save, and where to
//	save/<n>/<i>   what server i has written
type Group struct {
	Coord          coord.Coordinator
	Servers, Index int
}

// MaxServers bounds a Group.
const MaxServers = 256

// How long servers wait for one another: until all listen, and at the end until the
// last one's trainers are gone.
const (
	meetWithin = time.Minute
	endWithin  = time.Minute
	saveWithin = 10 * time.Minute
)

// follows says that server 0 tells this one when to save.
func (s *Server) follows() bool { return s.cfg.index() > 0 && s.first.Saves }

// settings are what all servers of a group must have alike.
type settings struct {
	Servers, Lanes, Clients, Staleness int
	TableSync                          string              `json:",omitempty"`
	Tables                             string              // as they were read
	Saves                              bool                // server 0's word counts
	Chains                             *place.ChainsConfig `json:",omitempty"` // with replicas
}

// chains are those of s, in words.
func (s *settings) chains() string {
	if s.Chains == nil {
		return "none"
	}
	return fmt.Sprintf("%d groups of %d replicas, on one host: %v", s.Chains.Groups, s.Chains.Replicas, s.Chains.AllowSameHost)
}

func (s *settings) differ(first *settings, whose string) error {
	for _, f := range []struct {
		name   string
		a0, me any
	}{{"--servers", first.Servers, s.Servers}, {"--threads", first.Lanes, s.Lanes}, {"--clients", first.Clients, s.Clients},
		{"--sync and --staleness", first.Staleness, s.Staleness}, {"--table-sync", first.TableSync, s.TableSync}, {"--tables", first.Tables, s.Tables}, {"--groups, --replicas and --allow-same-host", first.chains(), s.chains()}} {
		if f.a0 != f.me {
			return &InputError{Path: f.name, Msg: fmt.Sprintf("%v here, %v at %s: give all servers the same", f.me, f.a0, whose)}
		}
	}
	return nil
}

// members is how many servers there are, index which one this is.
func (c *Config) members() int {
	if c.Group == nil {
		return 1
	}
	return c.Group.Servers
}

func (c *Config) index() int {
	if c.Group == nil {
		return 0
	}
	return c.Group.Index
}

// layout is the map of all servers, without their addresses.
func (c *Config) layout() (*place.Map, error) {
	list := make([]place.Server, c.members())
	for i := range list {
		list[i] = place.Server{ID: i, Weight: 1, Lanes: c.Lanes}
	}
	return place.New(1, place.DefaultSlots, list)
}

// directory is the map with the address of every server, as they met.
func (s *Server) directory(context.Context) (*place.Map, error) {
	if m := s.met.Load(); m != nil {
		return m, nil
	}
	return nil, errors.New("serve: the servers have not all come yet")
}

// addresses waits for every server to say where it listens.
func (s *Server) addresses(ctx context.Context) (*place.Map, error) {
	m, err := s.cfg.layout()
	if err != nil {
		return nil, err
	}
	for i := range m.Servers {
		if i == s.cfg.index() {
			m.Servers[i].Addr = s.Addr()
			continue
		}
		a, err := coord.Await(ctx, s.cfg.Group.Coord, fmt.Sprintf("server/%d", i))
		if err != nil {
			return nil, fmt.Errorf("serve: server %d of %d is not there: %w", i, len(m.Servers), err)
		}
		m.Servers[i].Addr = string(a)
	}
	return m, nil
}

// meet tells the others where this server is, and waits until all are there and
// agree.
func (s *Server) meet(ctx context.Context) error {
	g := s.cfg.Group
	if g == nil {
		m, err := s.addresses(ctx)
		s.met.Store(m)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, meetWithin)
	defer cancel()
	tables, err := json.Marshal(s.cfg.Tables)
	if err != nil {
		return err
	}
	mine := settings{Servers: g.Servers, Lanes: s.cfg.Lanes, Clients: s.cfg.Clients, Staleness: s.cfg.Staleness, TableSync: s.cfg.TableSync.String(), Tables: string(tables), Saves: s.cfg.Save != ""}
	b, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	if _, err := g.Coord.Put(ctx, fmt.Sprintf("serve/%d", g.Index), b, 0); err != nil {
		return err
	}
	if _, err := g.Coord.Put(ctx, fmt.Sprintf("server/%d", g.Index), []byte(s.Addr()), 0); err != nil {
		return err
	}
	if b, err = coord.Await(ctx, g.Coord, "serve/0"); err != nil {
		return fmt.Errorf("serve: server 0 does not come: %w; start all %d servers with the same --coordinator", err, g.Servers)
	}
	if err := json.Unmarshal(b, &s.first); err != nil {
		return fmt.Errorf("serve: server 0's settings are not understood: %w; run the same psrt version everywhere", err)
	}
	if err := mine.differ(&s.first, "server 0"); err != nil {
		return err
	}
	m, err := s.addresses(ctx)
	s.met.Store(m)
	return err
}

// order is server 0's word to save.
type order struct {
	Path string // "": there will be no order any more
	Last bool   // no trainer is connected any more
}

// saved is a server's part of a model.
type saved struct {
	Reply  psmsg.SaveReply
	Failed string
}

func orderKey(n int) string { return fmt.Sprintf("save/%d", n) }

// follow carries out server 0's orders until ctx ends or the last one comes, which
// is left to end.
func (s *Server) follow(ctx context.Context) {
	defer close(s.orders)
	for n := 1; ; n++ {
		b, err := coord.Await(ctx, s.cfg.Group.Coord, orderKey(n))
		var o order
		if err == nil {
			err = json.Unmarshal(b, &o)
		}
		switch {
		case err != nil:
			if ctx.Err() == nil {
				s.cfg.Log(fmt.Sprintf("server 0's orders to save do not come any more: %v", err))
			}
			return
		case o.Last:
			s.orders <- numbered{n, o}
			return
		}
		if err := s.obey(ctx, n, o); err != nil && ctx.Err() == nil {
			s.cfg.Log(fmt.Sprintf("could not save: %v", err))
		}
	}
}

type numbered struct {
	n int
	order
}

func (s *Server) obey(ctx context.Context, n int, o order) error {
	var r saved
	rep, err := s.server.Save(psmsg.SaveRequest{Dir: o.Path})
	if err != nil {
		r.Failed = err.Error()
	} else {
		r.Reply = rep
	}
	b, err2 := json.Marshal(r)
	if err2 == nil {
		_, err2 = s.cfg.Group.Coord.Put(ctx, fmt.Sprintf("%s/%d", orderKey(n), s.cfg.Group.Index), b, 0)
	}
	return errors.Join(err, err2)
}

// endFollowing waits for the order to save at the end.
func (s *Server) endFollowing() error {
	select {
	case o, ok := <-s.orders:
		if !ok {
			return errors.New("serve: nothing was saved of this server: server 0 cannot be reached")
		}
		if o.Path == "" {
			return nil // server 0 tells why
		}
		ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
		defer cancel()
		return s.obey(ctx, o.n, o.order)
	case <-time.After(endWithin):
		return fmt.Errorf("serve: nothing was saved of this server: server 0 still serves after %v; end all servers of a group together", endWithin)
	}
}

// callOff lets the others end where server 0 cannot save.
func (s *Server) callOff() {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	b, err := json.Marshal(order{Last: true})
	if err == nil {
		_, _ = s.cfg.Group.Coord.Put(ctx, orderKey(s.saves+1), b, 0) // or they wait for endWithin
	}
}

// collect has every server write its part to path, this one too.
func (s *Server) collect(path string, last bool) ([]psmsg.SaveReply, error) {
	g := s.cfg.Group
	if g == nil {
		rep, err := s.server.Save(psmsg.SaveRequest{Dir: path})
		return []psmsg.SaveReply{rep}, err
	}
	limit := saveWithin
	if last {
		limit += endWithin
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s.saves++
	b, err := json.Marshal(order{path, last})
	if err != nil {
		return nil, err
	}
	if _, err := g.Coord.Put(ctx, orderKey(s.saves), b, 0); err != nil {
		return nil, err
	}
	rep, err := s.server.Save(psmsg.SaveRequest{Dir: path})
	if err != nil {
		return nil, err
	}
	all := []psmsg.SaveReply{rep}
	for i := 1; i < g.Servers; i++ {
		key := fmt.Sprintf("%s/%d", orderKey(s.saves), i)
		b, err := coord.Await(ctx, g.Coord, key)
		var r saved
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if err == nil && r.Failed != "" {
			err = errors.New(r.Failed)
		}
		if err != nil {
			return nil, fmt.Errorf("serve: server %d did not save its part: %w", i, err)
		}
		_, _ = g.Coord.Delete(ctx, key) // what stays is a few bytes
		all = append(all, r.Reply)
	}
	return all, nil
}
