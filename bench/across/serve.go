package across

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"psrt/rdma/dial"
	"psrt/sched/server"
)

// Serving is the child's side. Its context ends with the parent's interest.
type Serving struct {
	context.Context
	order   order
	servers sync.WaitGroup
	closes  []func() error
	beside  sync.WaitGroup
}

// Serve is the child's body: it decodes what Open was given into config, lets
// start begin, answers with what start says, and runs until in ends.
func Serve(in io.Reader, out io.Writer, config any, start func(*Serving) (says any, err error)) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Serving{Context: ctx}
	defer s.beside.Wait()
	defer s.close()
	defer s.servers.Wait() // they end what they have on the transports that close then
	defer cancel()
	if err := json.NewDecoder(in).Decode(&s.order); err != nil {
		return fmt.Errorf("no set-up on standard input: %w", err)
	}
	if err := json.Unmarshal(s.order.Config, config); err != nil {
		return fmt.Errorf("a set-up that is not understood: %w", err)
	}
	var a answer
	says, err := start(s)
	if err == nil {
		a.Says, err = json.Marshal(says)
	}
	if err != nil {
		a.Err = err.Error()
	}
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, in) // the parent's end is the end
	return nil
}

// AtEnd calls f when the parent is gone, last in first out.
func (s *Serving) AtEnd(f func() error) { s.closes = append(s.closes, f) }

func (s *Serving) close() {
	for i := len(s.closes) - 1; i >= 0; i-- {
		_ = s.closes[i]() // the process ends
	}
}

// Go runs f beside; the child ends when it has returned.
func (s *Serving) Go(f func()) { s.beside.Go(f) }

// Host makes transports that listen, closed at the end.
func (s *Serving) Host() (*dial.Host, error) {
	h, err := dial.New(dial.Config{Transport: s.order.Transport, Token: s.order.Token, Listen: loopback})
	if err == nil {
		s.AtEnd(h.Close)
	}
	return h, err
}

// loopback is where everything listens: any free port.
const loopback = "127.0.0.1:0"

// Server runs a server of one lane on h and gives its address. The map and where
// it listens are added to c; its memory may be anywhere.
func (s *Serving) Server(h *dial.Host, c server.Config) (addr string, err error) {
	if c.Map, err = OneServer(""); err != nil {
		return "", err
	}
	c.Host, c.Listen, c.Node = h, loopback, -1
	one, err := server.New(c)
	if err != nil {
		return "", err
	}
	s.servers.Go(func() { _ = one.Serve(s) }) // clients see their end of a failure
	return one.Addr(), nil
}
