package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"psrt/sched/coord/local"
)

func who(r int) string { return fmt.Sprintf("worker %d", r) }

// everybody meets, each rank with its own part.
func everybody(t *testing.T, world int, open func(rank int) (Exchange, error), part func(rank int) Config) ([]*Met, []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	met, errs := make([]*Met, world), make([]error, world)
	var all sync.WaitGroup
	for r := range world {
		all.Go(func() {
			ex, err := open(r)
			if err != nil {
				errs[r] = err
				return
			}
			cfg := part(r)
			cfg.Rank, cfg.World, cfg.Who = r, world, who
			met[r], errs[r] = Meet(ctx, ex, cfg)
		})
	}
	all.Wait()
	return met, errs
}

// Ranks of one host get rank 0's secret and its coordinator by the launcher's
// exchange.
func TestMeetByPMI(t *testing.T) {
	m := newManager(4, 1024)
	secret := NewToken()
	met, errs := everybody(t, 4, func(r int) (Exchange, error) {
		return openPMI(t.Context(), m.descriptor(t), r, 4)
	}, func(r int) Config {
		if r == 0 {
			return Config{Token: secret, Coordinator: 4711}
		}
		return Config{}
	})
	for r := range met {
		if errs[r] != nil {
			t.Fatal(errs[r])
		}
		if m := met[r]; !m.OneHost || m.Coordinator != "127.0.0.1:4711" || string(m.Token) != string(secret) || len(m.Cards) != 4 {
			t.Errorf("rank %d: %+v", r, m)
		}
	}
}

// When rank 0 has no job, everybody says why at once.
func TestMeetWithoutAJob(t *testing.T) {
	store := local.New()
	defer store.Close()
	_, errs := everybody(t, 3, func(r int) (Exchange, error) { return Through(store, r, 3, who), nil }, func(r int) Config {
		c := Config{Token: []byte("the secret of the tests")}
		if r == 0 {
			c.Failed = errors.New("no such file: nope.txt")
		}
		return c
	})
	for r, err := range errs {
		var failed *FailedError
		if err == nil || !strings.Contains(err.Error(), "nope.txt") || r > 0 && (!errors.As(err, &failed) || failed.Rank != 0) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// The probes of ranks that are not on one host find each other, whatever the
// names of the hosts; here the hosts are pretended, and the network is loopback.
func TestProbe(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := NewToken()
	p, err := listenProbe(3, "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	a := at("lo", fmt.Sprintf("127.0.0.1/%d", 8)).prefix.Addr()
	if from, err := ask(ctx, joinPort(a, p.port()), 3, token); err != nil || from != "127.0.0.1" {
		t.Errorf("from %q, %v", from, err)
	}
	short, end := context.WithTimeout(ctx, 300*time.Millisecond)
	defer end()
	if _, err := ask(short, joinPort(a, p.port()), 2, token); err == nil || !strings.Contains(err.Error(), "rank 3 answered") {
		t.Errorf("another rank answered: %v", err)
	}
	if _, err := ask(ctx, joinPort(a, p.port()), 3, NewToken()); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("another job's rank: %v", err)
	}
	port := p.port()
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(ctx, joinPort(a, port), 3, token); err == nil || !strings.Contains(plain(err), "refused") {
		t.Errorf("nobody there: %v", err)
	}
}
