package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"psrt/rdma/dial"
	"psrt/sched/place"
)

// resolver knows the newest shard map that any server has told, and whom to ask for
// a newer one. It is asked by any goroutine.
//
// Two servers are always being asked (ask.go): each answers when it has a newer map,
// so a change is known here as soon as there. A third is asked, another one each
// time, when something goes wrong: those two may be cut off from the rest.
type resolver struct {
	host *dial.Host
	news func(*place.Chains) // told of each newer map, one at a time
	// restarts: the map of a job that was started again replaces the one before.
	restarts bool

	telling sync.Mutex // held around news

	mu      sync.Mutex
	newest  *place.Chains
	changed chan struct{} // closed when newest is replaced
	known   map[string]*source
	hurry   chan struct{} // capacity 1: ask another server now
}

// source is a server that may be asked.
type source struct {
	busy   bool      // being asked
	failed time.Time // last
	said   string    // the last answer
	at     time.Time // of that
	epoch  uint64    // of the newest map that named it
}

// maxForgotten bounds the addresses that are known and not in the newest map.
const maxForgotten = 256

func newResolver(host *dial.Host, first *place.Chains, news func(*place.Chains)) *resolver {
	r := &resolver{host: host, news: news, newest: first, changed: make(chan struct{}), known: map[string]*source{}, hurry: make(chan struct{}, 1)}
	r.learn(first)
	return r
}

// learn notes the addresses of a map. With mu, or alone.
func (r *resolver) learn(c *place.Chains) {
	for _, s := range c.Servers {
		if s.Addr == "" {
			continue
		}
		if r.known[s.Addr] == nil {
			r.known[s.Addr] = &source{}
		}
		r.known[s.Addr].epoch = c.Epoch
	}
	for len(r.known) > len(c.Servers)+maxForgotten {
		oldest := ""
		for a, s := range r.known {
			if !s.busy && s.epoch < c.Epoch && (oldest == "" || s.epoch < r.known[oldest].epoch) {
				oldest = a
			}
		}
		if oldest == "" {
			return
		}
		delete(r.known, oldest)
	}
}

// take notes a map that a server has told; what is not newer is no news.
func (r *resolver) take(c *place.Chains) error {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.mu.Lock()
	was := r.newest
	same := c.Job == was.Job || c.Job == 0 || was.Job == 0
	if c.Slots != was.Slots || len(c.Groups) != len(was.Groups) || same && c.Began != was.Began || !same && !r.restarts {
		r.mu.Unlock()
		return fmt.Errorf("client: it has the map of another job (%d slots in %d groups since epoch %d, this one has %d in %d since %d)",
			c.Slots, len(c.Groups), c.Began, was.Slots, len(was.Groups), was.Began)
	}
	if same && c.Epoch <= was.Epoch || !same && c.Job < was.Job {
		r.mu.Unlock()
		return nil
	}
	r.newest = c
	r.learn(c)
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	r.news(c)
	return nil
}

// head is where a group's worker connects.
type head struct {
	node  place.Node
	addr  string
	chain []place.Node
	epoch uint64 // of the map
	since uint64 // of the group's chain
	job   uint64 // of the map
	// until is closed when there is a newer map.
	until <-chan struct{}
}

func (r *resolver) latest() *place.Chains {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

func (r *resolver) head(group int) head {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := head{epoch: r.newest.Epoch, job: r.newest.Job, until: r.changed}
	h.node, h.addr = r.newest.Head(group)
	h.since = r.newest.Groups[group].Since
	for _, m := range r.newest.Groups[group].Chain {
		h.chain = append(h.chain, r.newest.Node(m.Server))
	}
	return h
}

// note keeps what a server answered, for errors and for whom to ask next. A good
// answer has no err.
func (r *resolver) note(addr, said string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.known[addr]
	if s == nil {
		return
	}
	s.at = time.Now()
	s.said = said
	if err != nil {
		s.said, s.failed = err.Error(), s.at
		var last error // the innermost says what; the others say where
		for e := err; e != nil; e = errors.Unwrap(e) {
			last = e
		}
		if text := last.Error(); text != "" && len(text) < len(s.said) {
			s.said = text
		}
	}
}

// maxReported is how many servers an error names.
const maxReported = 8

// report says what each known server answered last.
func (r *resolver) report() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for addr, s := range r.known {
		text := addr + " was not asked"
		if !s.at.IsZero() {
			text = fmt.Sprintf("%s said %.1f s ago: %s", addr, time.Since(s.at).Seconds(), s.said)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	more := ""
	if n := len(all) - maxReported; n > 0 {
		all, more = all[:maxReported], fmt.Sprintf("; and %d more", n)
	}
	return fmt.Sprintf("the newest map is of epoch %d; %s%s", r.newest.Epoch, strings.Join(all, "; "), more)
}
