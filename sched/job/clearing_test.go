package job

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"psrt/sched/coord/local"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/serve"
	"psrt/sched/train"
)

// Rank 0 that ends leaves to the servers of a job that goes on what they meet by, and
// nobody begins another job on top of it.
func TestARunningJobIsNotCleared(t *testing.T) {
	ctx := t.Context()
	servers := []place.Server{{ID: 0, Gen: 7, Addr: "h0:1", Lanes: 1, Host: "h0"}, {ID: 1, Gen: 8, Addr: "h1:1", Lanes: 1, Host: "h1"}}
	m, err := place.NewChains(place.ChainsConfig{Slots: place.DefaultSlots, Groups: 2, Replicas: 2}, servers)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		listed   []uint64 // the generation of server 1
		end      string   // a key
		running  []int
		unneeded bool
	}{
		{"it runs", []uint64{8}, "", []int{1}, false},
		{"nobody is left", nil, "", nil, true},
		{"its rows are gone", []uint64{9}, "", nil, false},
		{"it is done", []uint64{8}, train.KeyDone, nil, true},
		{"the servers end", []uint64{8}, serve.KeyOver, nil, true},
		{"it was ended", []uint64{8}, "abort", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := local.New()
			defer store.Close()
			put := func(key string, value []byte) {
				t.Helper()
				if _, err := store.Put(ctx, key, value, 0); err != nil {
					t.Fatal(err)
				}
			}
			put(replica.KeyMap, chains)
			for _, gen := range c.listed {
				one := servers[1]
				one.Gen = gen
				b, err := json.Marshal(replica.Registration{Server: one})
				if err != nil {
					t.Fatal(err)
				}
				put(replica.ServerKey(1), b)
			}
			if c.end != "" {
				put(c.end, []byte("1"))
			}
			if got, err := serving(ctx, store); err != nil || !slices.Equal(got, c.running) {
				t.Errorf("servers %v run, %v, want %v", got, err, c.running)
			}
			if got, err := unneeded(ctx, store); err != nil || got != c.unneeded {
				t.Errorf("nobody needs it: %v, %v, want %v", got, err, c.unneeded)
			}
			var bad *train.InputError
			if err := vacant(ctx, store, time.Millisecond); errors.As(err, &bad) != (len(c.running) > 0) {
				t.Errorf("another job here: %v", err)
			}
		})
	}
	store := local.New()
	defer store.Close()
	if err := vacant(ctx, store, 0); err != nil {
		t.Errorf("an empty store: %v", err)
	}
}

// A server that is started before its keeper waits until that one has cleared what a former
// life has left, and for nothing else.
func TestFormerLife(t *testing.T) {
	ctx := t.Context()
	servers := []place.Server{{ID: 0, Gen: 7, Addr: "h0:1", Lanes: 1, Host: "h0"}, {ID: 1, Gen: 8, Addr: "h1:1", Lanes: 1, Host: "h1"}}
	m, err := place.NewChains(place.ChainsConfig{Slots: place.DefaultSlots, Groups: 2, Replicas: 2}, servers)
	if err != nil {
		t.Fatal(err)
	}
	chains, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	store := local.New()
	defer store.Close()
	living := ""
	lives := func(_ context.Context, addr string) bool { return addr == living }
	put := func(key string, value []byte) {
		t.Helper()
		if _, err := store.Put(ctx, key, value, 0); err != nil {
			t.Fatal(err)
		}
	}
	list := func(s place.Server) {
		t.Helper()
		b, err := json.Marshal(replica.Registration{Server: s})
		if err != nil {
			t.Fatal(err)
		}
		put(replica.ServerKey(s.ID), b)
	}
	wants := func(what string, former bool) {
		t.Helper()
		if got, err := leftBehind(ctx, store, lives); err != nil || got != former {
			t.Errorf("%s: of a former life: %v, %v, want %v", what, got, err, former)
		}
	}
	wants("an empty store", false)
	list(servers[1])
	wants("a server without a map, as at a start", false)
	put(replica.KeyMap, chains)
	wants("a registration whose server does not answer", true)
	living = "h1:1"
	wants("one that does", false)
	newer := servers[1]
	newer.Gen = 9
	list(newer)
	wants("a server of the map was started again", true)
	list(servers[0])
	living = "h0:1"
	wants("and another lives", false)
	put(serve.KeyOver, nil)
	wants("the servers have ended", true)

	var notes []string
	waited := make(chan error, 1)
	told := make(chan struct{})
	go func() {
		waited <- awaitCleared(ctx, store, lives, func(s string) { notes = append(notes, s); close(told) })
	}()
	<-told // once, or it would panic
	for _, key := range []string{serve.KeyOver, replica.KeyMap, replica.ServerKey(0), replica.ServerKey(1)} {
		if _, err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-waited; err != nil || len(notes) != 1 {
		t.Errorf("it waited: %v, and said %q", err, notes)
	}
	put(serve.KeyOver, nil)
	asked, cancel := context.WithCancel(ctx)
	cancel()
	if err := awaitCleared(asked, store, lives, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who is told to end while it waits: %v", err)
	}
}
