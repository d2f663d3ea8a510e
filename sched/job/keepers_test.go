package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/coord/remote"
	"psrt/sched/train"
)

func TestKeepersFor(t *testing.T) {
	for _, c := range []struct {
		servers, workers, replicas, groups int
		ranks, etcd                        bool
		want                               string
	}{
		{3, 2, 2, 6, true, false, "&{5 false}"},
		{2, 2, 2, 6, true, false, "&{3 false}"},
		{2, 1, 2, 6, true, false, "&{3 false}"},
		{2, 2, 1, 6, true, false, "<nil>"}, // rank 0's rows are as lost as its store
		{2, 2, 0, 0, true, false, "<nil>"},
		{3, 2, 2, 6, false, false, "<nil>"}, // the launcher's process keeps it
		{2, 2, 1, 6, true, true, "&{0 true}"},
		{2, 2, 0, 0, true, true, "<nil>"},
	} {
		sc := &StoreConfig{Ranks: c.ranks}
		if c.etcd {
			sc.Endpoints = []string{"https://etcd:2379"}
		}
		j := &train.Job{Servers: c.servers, Workers: c.workers, Replicas: c.replicas, Groups: c.groups}
		if got := fmt.Sprint(keepersFor(j, sc)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestChooseKeepers(t *testing.T) {
	for _, c := range []struct {
		cards string // s or w, and the host; e: knows the user's etcd
		wish  keepersWish
		want  []int
	}{
		{"s1 s2 s3 w4 w4", keepersWish{Members: 3}, []int{0, 1, 2}},
		{"s1 s1 s2 w3 w3", keepersWish{Members: 3}, []int{0, 2, 3}},
		{"s1 s2 s3 w4 w4", keepersWish{Members: 5}, []int{0, 1, 2, 3, 4}},
		{"s1 s1 s1 w1 w1 w1", keepersWish{Members: 5}, []int{0, 1, 2, 3, 4}},
		{"s1 s1 w1", keepersWish{Members: 3}, []int{0, 1, 2}},
		{"s1 s2 w1", keepersWish{Members: 3}, []int{0, 1, 2}},
		{"e1 s2 e3 w4", keepersWish{Own: true}, []int{0, 2}},
		{"s1 s2 w4", keepersWish{Own: true}, nil},
	} {
		var cards []keeperCard
		for _, f := range strings.Fields(c.cards) {
			cards = append(cards, keeperCard{Host: f[1:], Serves: f[0] != 'w', Own: f[0] == 'e'})
		}
		if got := c.wish.choose(cards); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.cards, got, c.want)
		}
	}
}

// Whoever answers is as good as the others, and who comes again gets another.
func TestWays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := []byte(strings.Repeat("token", 8))
	store := local.New()
	defer store.Close()
	var addrs []string
	for i := range 3 {
		l, err := secure.Listen("tcp", "127.0.0.1:0", token)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, l.Addr().String())
		s := remote.ServeOneOf(l, store)
		if i == 1 {
			if err := s.Close(); err != nil { // nobody is there
				t.Fatal(err)
			}
		} else {
			defer s.Close()
		}
	}
	w := waysTo(strings.Join(addrs, ","), token)
	w.stagger = time.Minute // however busy the machine is, the first that answers is the one whose turn it is
	for _, want := range []string{addrs[0], addrs[2], addrs[0]} {
		c, err := w.dial(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != want {
			t.Errorf("reached %s, want %s of %v", got, want, addrs)
		}
		c.Close()
	}
	c := w.client()
	defer c.Close()
	if _, err := c.Put(ctx, "k", nil, 0); err != nil {
		t.Error(err)
	}
	if _, err := waysTo(addrs[1], token).dial(ctx); err == nil {
		t.Error("nobody is there, and answers")
	}
	var stranger *net.OpError
	if _, err := waysTo(addrs[0], []byte(strings.Repeat("other", 8))).dial(ctx); !errors.Is(err, secure.ErrToken) || errors.As(err, &stranger) {
		t.Errorf("with another token: %v", err)
	}
}

// One that takes connections and says nothing, as a stopped process does, keeps nobody
// from the others.
func TestWaysBesideASilentOne(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	token := []byte(strings.Repeat("token", 8))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	l, err := secure.Listen("tcp", "127.0.0.1:0", token)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := waysTo(silent.Addr().String()+","+l.Addr().String(), token)
	for range 3 {
		c, err := w.dial(ctx)
		for err != nil && ctx.Err() == nil { // a busy machine may need more than wayTimeout
			c, err = w.dial(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := c.RemoteAddr().String(); got != l.Addr().String() {
			t.Errorf("reached %s", got)
		}
		c.Close()
	}
	gone, end := context.WithCancel(ctx)
	end()
	if _, err := w.dial(gone); err == nil {
		t.Error("reached without time")
	}
}

// Who keeps the store waits for those that live, and for nobody who is dead.
func TestAwaitEnds(t *testing.T) {
	ctx := t.Context()
	j := &train.Job{Servers: 2, Workers: 2, Replicas: 2, Groups: 2, OnWorkerLoss: train.LossContinue}
	c := local.New()
	defer c.Close()
	put := func(key, value string) {
		t.Helper()
		if _, err := c.Put(ctx, key, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want int) {
		t.Helper()
		if n, err := leftOf(ctx, c, j); err != nil || n != want {
			t.Errorf("%d left, %v, want %d", n, err, want)
		}
	}
	left(4)
	put(endKey(0), "")
	left(3)
	put(train.KeyDone, "1")
	left(2) // server 1 is not registered
	put("number/1", `{"generation":2,"done":true}`)
	left(1)
	if awaitEnds(c, j, &coord.AbortError{}) {
		t.Error("worker 0 has not ended")
	}
	ended := make(chan bool)
	go func() { ended <- awaitEnds(c, j, nil) }()
	put(endKey(2), "")
	if !<-ended {
		t.Error("all have ended")
	}
}
