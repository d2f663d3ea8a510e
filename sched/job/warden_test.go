package job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"psrt/csrc/seedtest"
	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/coord/local"
	"psrt/sched/coord/patient"
	"psrt/sched/train"
)

// keepTogether has n ranks bring a job's store to those that keep it.
func keepTogether(t *testing.T, n int) []*keeper {
	t.Helper()
	store := local.New()
	t.Cleanup(func() { store.Close() })
	job := &train.Job{Servers: n - 1, Workers: 1, Replicas: 2, Groups: 4}
	all, errs := make([]*keeper, n), make([]error, n)
	var ranks sync.WaitGroup
	for r := range n {
		cfg := &RankConfig{Rank: r, World: n, Coord: store, Token: []byte("a token of this test alone, long enough"), JoinTimeout: 5 * time.Minute, HostLabel: "h" + strconv.Itoa(r), keepingTTL: 3 * time.Second}
		ranks.Go(func() { all[r], errs[r] = keep(t.Context(), cfg, job, &keepersWish{Members: manyKeepers}) })
	}
	ranks.Wait()
	t.Cleanup(func() {
		for _, k := range all {
			if k != nil {
				_ = k.close()
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

// waysOf are the ranks that offer one.
func waysOf(ctx context.Context, t *testing.T, c coord.Coordinator) (ranks []int) {
	t.Helper()
	kvs, _, err := c.List(ctx, wayPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		r, err := strconv.Atoi(kv.Key[len(wayPrefix):])
		if err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, r)
	}
	return ranks
}

// Of five keepers four die, one after the other, and others take their places while
// there are some. What was said stays, and who asks finds those that live.
func TestKeepersAreReplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all := keepTogether(t, 7)
	last := patient.New(all[6].store, nil) // the worker: it is called last
	if _, err := last.Put(ctx, "said", []byte("at the beginning"), 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{5, 5, 4, 3} { // keepers: of the living, as many as may be
		if err := all[i].close(); err != nil { // as a process that is killed: it says nothing
			t.Log(err)
		}
		all[i] = nil
		began := time.Now()
		for {
			if got := waysOf(ctx, t, last); len(got) == want && slices.Min(got) > i {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("rank %d: dead for %v when the others were whole", i, time.Since(began).Round(time.Millisecond))
		if _, err := last.Put(ctx, fmt.Sprint("death/", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	asks := patient.New(all[4].store, nil)
	if kv, err := asks.Get(ctx, "said"); err != nil || string(kv.Value) != "at the beginning" {
		t.Errorf("%q, %v", kv.Value, err)
	}
	if kvs, _, err := asks.List(ctx, "death/"); err != nil || len(kvs) != 4 {
		t.Errorf("%d of 4 deaths are known, %v", len(kvs), err)
	}
}

// A keeper that the others went on without, as it was only away, asks them, and is one
// again: first of those from the beginning, then in another's place.
func TestKeeperComesBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all := keepTogether(t, 5)
	asks := patient.New(all[4].store, nil)
	for range 2 {
		way, err := asks.Get(ctx, wayPrefix+"1")
		if err != nil {
			t.Fatal(err)
		}
		for removed := false; !removed; time.Sleep(50 * time.Millisecond) { // refused while its peers have only just met
			for _, k := range []*keeper{all[0], all[2], all[3], all[4]} {
				members, err := k.member.Members(ctx)
				if ctx.Err() != nil {
					t.Fatal(err)
				}
				for _, m := range members {
					removed = removed || m.Name == "1" && k.member.Remove(ctx, m.ID) == nil
				}
			}
		}
		for now := way; now.Revision == way.Revision || errors.Is(err, coord.ErrNotFound); now, err = asks.Get(ctx, wayPrefix+"1") {
			if ctx.Err() != nil || err != nil && !errors.Is(err, coord.ErrNotFound) {
				t.Fatalf("it is no keeper again: %v, %v", err, ctx.Err())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if _, err := patient.New(all[1].store, nil).Put(ctx, "late", nil, 0); err != nil {
		t.Errorf("it cannot ask the others: %v", err)
	}
}

// However many ranks there are, few are ready to be keepers, and hold what that takes;
// where one of them goes, another is.
func TestFewOffer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	store := local.New()
	defer store.Close()
	text := fmt.Sprintf(`{"members":%d}`, manyKeepers)
	if _, err := store.Put(ctx, keySuccession, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	job := &train.Job{Servers: 3 * offers, Workers: 1, Replicas: 2, Groups: 4}
	var all []*keeper
	for r := range 3 * offers {
		k := &keeper{cfg: &RankConfig{Rank: r, Coord: store, keepingTTL: 10 * time.Second}, job: job, store: unowned{store}, known: waysTo("", nil)}
		if err := k.guard(ctx); err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	ended := map[int]bool{}
	defer func() {
		for r, k := range all {
			if !ended[r] {
				_ = k.close()
			}
		}
	}()
	for range 3 {
		var offered map[int]keepingCard
		for len(offered) < offers {
			var err error
			if offered, err = cards(ctx, store, offerPrefix); err != nil {
				t.Fatal(err)
			}
			for r := range ended {
				delete(offered, r)
			}
			if len(offered) > offers {
				t.Fatalf("%d ranks offer themselves, want %d", len(offered), offers)
			}
			time.Sleep(5 * time.Millisecond)
		}
		for r := range offered {
			_ = all[r].close()
			ended[r] = true
		}
	}
}

// Those that are ready are of several hosts, and not of one that has a keeper, as far as
// there are others: whichever keeper dies, another host can have its place.
func TestOffersAreOfSeveralHosts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	store := local.New()
	defer store.Close()
	for key, text := range map[string]string{keySuccession: fmt.Sprintf(`{"members":%d}`, manyKeepers), keepingPrefix + "99": `{"host":"h0"}`} {
		if _, err := store.Put(ctx, key, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	const hosts = 3
	job := &train.Job{Servers: hosts * offers, Workers: 1, Replicas: 2, Groups: 4}
	for r := range hosts * offers { // who comes later, if at all, does so after a minute
		cfg := &RankConfig{Rank: r, Coord: store, keepingTTL: 5 * time.Minute, HostLabel: fmt.Sprint("h", r/offers)}
		k := &keeper{cfg: cfg, job: job, store: unowned{store}, known: waysTo("", nil)}
		if err := k.guard(ctx); err != nil {
			t.Fatal(err)
		}
		defer k.close()
	}
	for seen := map[string]int{}; len(seen) < hosts-1; time.Sleep(5 * time.Millisecond) {
		offered, err := cards(ctx, store, offerPrefix)
		if err != nil {
			t.Fatal(err)
		}
		clear(seen)
		for _, card := range offered {
			seen[card.Host]++
		}
		if seen["h0"] > 0 || len(offered) > len(seen) {
			t.Fatalf("by host %v offer themselves, want one of each but that of the keeper", seen)
		}
	}
}

// A server that keeps the store may leave while most of the others live without it.
func TestKeeperMayLeave(t *testing.T) {
	for _, x := range []struct {
		ways, living []int
		rank         int
		may          bool
	}{
		{[]int{0, 1, 2}, []int{0, 1, 2}, 0, true},
		{[]int{0, 1, 2}, []int{0, 1}, 0, false},
		{[]int{0, 1, 2}, []int{0, 1}, 4, true}, // it keeps nothing
		{[]int{0, 1, 2, 3, 4}, []int{0, 1, 2}, 1, false},
		{[]int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3}, 1, true},
		{[]int{0, 1}, []int{0, 1}, 1, true},
		{[]int{1}, []int{1}, 1, false},
		{[]int{1}, nil, 1, true}, // your etcd
	} {
		c := local.New()
		defer c.Close()
		for _, r := range x.ways {
			if _, err := c.Put(t.Context(), wayPrefix+strconv.Itoa(r), nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range x.living {
			if _, err := c.Put(t.Context(), keepingPrefix+strconv.Itoa(r), []byte("{}"), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := mayLeave(t.Context(), c, &train.Job{Servers: 9}, x.rank, x.rank); (err == nil) != x.may {
			t.Errorf("%+v: %v", x, err)
		}
	}
}

// One that is taken out of the job leaves the others as many votes as they need, at
// once; and one that was thought dead asks those that live.
func TestKeeperResigns(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	all := keepTogether(t, 5)
	c := patient.New(all[4].store, nil)
	all[1].warden.resign()
	if got := waysOf(ctx, t, c); slices.Contains(got, 1) {
		t.Errorf("ways %v after 1 has resigned", got)
	}
	select {
	case <-all[1].member.Ended():
	case <-ctx.Done():
		t.Fatal("it is a member still")
	}
	asks := patient.New(all[1].store, nil)
	if _, err := asks.Put(ctx, "late", nil, 0); err != nil {
		t.Errorf("it cannot ask the others: %v", err)
	}
	m, err := all[4].member.Members(ctx)
	if err != nil || len(m) != 4 {
		t.Errorf("members %v, %v", m, err)
	}
}

// The rule alone: whoever dies while most of the keepers live is replaced or left out,
// and there is a majority of the living at every moment.
func TestSuccession(t *testing.T) {
	rng := rand.New(rand.NewPCG(seedtest.Seed(t), 3))
	for range 2000 {
		world := 3 + rng.IntN(8)
		v := keepersView{want: manyKeepers, living: map[int]keepingCard{}, offers: map[int]keepingCard{}}
		if world < manyKeepers {
			v.want = fewKeepers
		}
		id := uint64(0)
		card := func(r int) keepingCard {
			return keepingCard{Host: fmt.Sprint(r % 3), Serves: r < world/2, Peer: fmt.Sprint("p", r)}
		}
		for r := range world {
			if r < v.want {
				id++
				v.members = append(v.members, etcd.Member{ID: id, Name: strconv.Itoa(r), Addr: fmt.Sprint("p", r)})
				v.living[r] = card(r)
			} else {
				v.offers[r] = card(r)
			}
		}
		majority := func() bool {
			n, living := 0, 0
			for _, m := range v.members {
				if m.Learner {
					continue
				}
				n++
				if _, ok := v.living[rankNamed(m.Name)]; ok {
					living++
				}
			}
			return living > n/2
		}
		for range 12 {
			steps := 0
			for do := v.next(); do.kind != noChange; do = v.next() {
				at := slices.IndexFunc(v.members, func(m etcd.Member) bool { return m.ID == do.id })
				switch do.kind {
				case removeMember:
					if !v.members[at].Learner {
						if _, ok := v.living[rankNamed(v.members[at].Name)]; ok {
							t.Fatalf("%+v: a living keeper is removed", v)
						}
					}
					v.members = slices.Delete(v.members, at, at+1)
				case addMember:
					id++
					v.members = append(v.members, etcd.Member{ID: id, Addr: v.offers[do.rank].Peer, Learner: true})
					if rng.IntN(4) == 0 { // it dies before it has begun
						delete(v.offers, do.rank)
					}
				case promoteMember:
					v.members[at].Learner, v.members[at].Name = false, strconv.Itoa(do.rank)
					v.living[do.rank] = v.offers[do.rank]
					delete(v.offers, do.rank)
				}
				if steps++; steps > 4*world {
					t.Fatalf("%+v: it does not end", v)
				}
				if !majority() {
					t.Fatalf("%+v: no majority lives after %+v", v, do)
				}
			}
			if len(v.members) < v.want && len(v.offers) > 0 {
				t.Fatalf("%+v: there are others, and nobody is called", v)
			}
			if len(v.living) < 3 && len(v.members) < 3 { // the next death would be too many
				break
			}
			for r := range v.living {
				delete(v.living, r)
				break
			}
		}
	}
}
