package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/train"
)

// Ranks that were started one by one meet in rank 0's memory. A job that is to survive
// the death of any of its processes then leaves it: some ranks keep its store together,
// an etcd of which each is a member, and each offers a way to it to all others. With the
// user's etcd there is nothing to keep, and every server offers a way.
//
//	keepers         how many shall keep the store; not there: rank 0 alone
//	way/<rank>      where that rank offers a way to it
const (
	keyKeepers = "keepers"
	wayPrefix  = "way/"
)

// Most of the keepers must live. More than five would make every change slower.
const (
	fewKeepers  = 3
	manyKeepers = 5 // of as many ranks
)

// keepersWish is under keyKeepers.
type keepersWish struct {
	Members int  `json:"members"`       // of an etcd of the job's own
	Own     bool `json:"own,omitempty"` // there is the user's etcd
}

// keepersFor is what a job asks for, nil if nothing.
func keepersFor(j *train.Job, sc *StoreConfig) *keepersWish {
	switch world := j.World(); {
	case !sc.Ranks || !j.Chained():
		return nil
	case sc.Durable():
		return &keepersWish{Own: true}
	case j.Replicas < 2 || world < fewKeepers:
		return nil
	case world >= manyKeepers:
		return &keepersWish{Members: manyKeepers}
	}
	return &keepersWish{Members: fewKeepers}
}

func readWish(ctx context.Context, c coord.Coordinator) (*keepersWish, error) {
	kv, err := c.Get(ctx, keyKeepers)
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	w := &keepersWish{}
	if err := json.Unmarshal(kv.Value, w); err != nil {
		return nil, fmt.Errorf("job: %s is not understood: %w; run the same psrt everywhere", keyKeepers, err)
	}
	return w, nil
}

// keeperCard is what each rank says of itself, so that all choose the same keepers.
type keeperCard struct {
	Host   string `json:"host"`
	Serves bool   `json:"serves"`
	Own    bool   `json:"own"` // it knows the user's etcd
}

// keeperWord is what a keeper says then; rank 0's has the members' credentials.
type keeperWord struct {
	Peer        string            `json:"peer,omitempty"`
	Way         string            `json:"way,omitempty"`
	Credentials *etcd.Credentials `json:"credentials,omitempty"`
}

// choose are the ranks that keep the store, rank 0 among them: on hosts of their own as
// far as there are some, and servers before workers.
func (w *keepersWish) choose(cards []keeperCard) (ranks []int) {
	if w.Own {
		for r, c := range cards {
			if c.Serves && c.Own {
				ranks = append(ranks, r)
			}
		}
		return ranks
	}
	for _, taken := range []bool{false, true} {
		for _, serves := range []bool{true, false} {
			for r, c := range cards {
				shares := slices.ContainsFunc(ranks, func(k int) bool { return cards[k].Host == c.Host })
				if len(ranks) < w.Members && c.Serves == serves && shares == taken && !slices.Contains(ranks, r) {
					ranks = append(ranks, r)
				}
			}
		}
	}
	return ranks
}

// WaysIn are those that a store names, as a --coordinator has them; "": none.
func WaysIn(ctx context.Context, c coord.Coordinator) (string, error) {
	kvs, _, err := c.List(ctx, wayPrefix)
	if err != nil {
		return "", err
	}
	var all []string
	for _, kv := range kvs {
		all = append(all, string(kv.Value))
	}
	return strings.Join(all, ","), nil
}

// KeeperInfo is a rank that keeps the job's store together with others.
type KeeperInfo struct {
	Rank  int    `json:"rank"`
	Name  string `json:"name"`
	Addr  string `json:"address"`
	Lives bool   `json:"lives"` // it was heard of within keepingTTL
}

// keepersNow are the ranks that keep a store which outlives them; none: rank 0 alone, a
// launcher or the user's etcd does.
func keepersNow(ctx context.Context, c coord.Coordinator, j *train.Job) ([]KeeperInfo, error) {
	living, err := cards(ctx, c, keepingPrefix)
	if err != nil || len(living) == 0 {
		return nil, err
	}
	kvs, _, err := c.List(ctx, wayPrefix)
	if err != nil {
		return nil, err
	}
	var all []KeeperInfo
	for _, kv := range kvs {
		r, err := strconv.Atoi(strings.TrimPrefix(kv.Key, wayPrefix))
		if err != nil {
			continue
		}
		_, lives := living[r]
		all = append(all, KeeperInfo{Rank: r, Name: nameIn(r, j), Addr: string(kv.Value), Lives: lives})
	}
	slices.SortFunc(all, func(a, b KeeperInfo) int { return a.Rank - b.Rank })
	return all, nil
}

// followWays calls set with the ways of now, at once and whenever they are others, until
// life is over.
func followWays(life context.Context, c coord.Coordinator, set func(addrs []string)) {
	for life.Err() == nil {
		if err := eachWays(life, c, set); err != nil {
			pause(life, wardenEvery)
		}
	}
}

func eachWays(life context.Context, c coord.Coordinator, set func(addrs []string)) error {
	all, rev, err := c.List(life, wayPrefix)
	if err != nil {
		return err
	}
	watch, err := c.Watch(life, wayPrefix, rev+1)
	if err != nil {
		return err
	}
	defer watch.Close()
	for {
		var addrs []string
		for _, kv := range all {
			addrs = append(addrs, string(kv.Value))
		}
		set(addrs)
		if _, ok := <-watch.Events(); !ok {
			return watch.Err()
		}
		if all, _, err = c.List(life, wayPrefix); err != nil {
			return err
		}
	}
}
