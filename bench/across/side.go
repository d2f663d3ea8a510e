package across

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"psrt/bench/child"
	"psrt/rdma/dial"
	"psrt/sched/client"
	"psrt/sched/place"
)

// order is what the child is told, answer what it says to that.
type order struct {
	Transport string
	Token     []byte
	Config    json.RawMessage
}

type answer struct {
	Err  string
	Says json.RawMessage
}

// Side is the measuring side.
type Side struct {
	Child *child.Child
	Host  *dial.Host // this process's transports
	kill  func()
}

// Open starts c, which calls Serve, tells it config and decodes its answer into
// says. The child is killed when ctx ends.
func Open(ctx context.Context, c child.Command, transport string, config, says any) (_ *Side, err error) {
	ctx, cancel := context.WithCancel(ctx)
	ch, err := child.Start(ctx, c)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Side{Child: ch, kill: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	o := order{Transport: transport, Token: make([]byte, 32)}
	_, _ = rand.Read(o.Token) // never fails
	if o.Config, err = json.Marshal(config); err != nil {
		return nil, err
	}
	if err := ch.Tell(o); err != nil {
		return nil, err
	}
	var a answer
	if err := ch.Hear(&a); err != nil {
		return nil, err
	}
	if a.Err != "" {
		return nil, fmt.Errorf("child process: %s", a.Err)
	}
	if err := json.Unmarshal(a.Says, says); err != nil {
		return nil, fmt.Errorf("child process: an answer that is not understood: %w", err)
	}
	s.Host, err = dial.New(dial.Config{Transport: transport, Token: o.Token})
	return s, err
}

// Close closes the transports and ends the child. Clients are closed before.
func (s *Side) Close() error {
	var err error
	if s.Host != nil {
		err = s.Host.Close()
	}
	s.Child.Close(s.kill)
	s.kill()
	return err
}

// Connect makes a client of the server of one lane at addr.
func (s *Side) Connect(ctx context.Context, addr string, worker int) (*client.Client, error) {
	m, err := OneServer(addr)
	if err != nil {
		return nil, err
	}
	return client.Open(ctx, client.Config{Worker: worker, Map: m, Host: s.Host, Node: -1})
}

// CPUSeconds that both processes have used so far.
func (s *Side) CPUSeconds() (float64, error) {
	own, err := child.OwnCPUSeconds()
	if err != nil {
		return 0, err
	}
	its, err := s.Child.CPUSeconds()
	return own + its, err
}

// OneServer is the map of a single server of one lane.
func OneServer(addr string) (*place.Map, error) {
	return place.New(1, place.DefaultSlots, []place.Server{{ID: 0, Weight: 1, Lanes: 1, Addr: addr}})
}
