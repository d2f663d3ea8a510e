package job

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/coord/patient"
	"psrt/sched/coord/remote"
	"psrt/sched/train"
)

const (
	// keepingTTL is how long a keeper may be silent before the others go on without
	// it: longer than a process that is short of cores is.
	keepingTTL = 10 * time.Second
	// wardenEvery is how often who leads looks at the keepers, changeWithin bounds one
	// change, and votesWithin the time until one that joins has its vote.
	wardenEvery  = 500 * time.Millisecond
	changeWithin = 5 * time.Second
	votesWithin  = time.Minute
)

// warden is a rank's part in the succession of keepers; see succession.go.
type warden struct {
	k    *keeper
	c    coord.Coordinator // patient; of who holds it
	word successionWord
	ttl  time.Duration

	cancel   context.CancelFunc
	all      sync.WaitGroup
	resigned atomic.Bool // it keeps nothing any more
}

// guard begins it, where there is one.
func (k *keeper) guard(ctx context.Context) error {
	c := patient.New(k.store, nil)
	kv, err := c.Get(ctx, keySuccession)
	switch {
	case errors.Is(err, coord.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	w := &warden{k: k, c: c, ttl: cmp.Or(k.cfg.keepingTTL, keepingTTL)}
	if err := json.Unmarshal(kv.Value, &w.word); err != nil {
		return fmt.Errorf("job: %s is not understood: %w; run the same psrt everywhere", keySuccession, err)
	}
	life, cancel := context.WithCancel(context.Background())
	w.cancel, k.warden = cancel, w
	if k.member != nil { // the others look for it at once
		s, err := w.keeps(ctx)
		if err != nil {
			cancel()
			return err
		}
		keeping, stop := context.WithCancel(life)
		w.all.Go(func() { w.stay(keeping, s) })
		w.all.Go(func() { pause(life, w.ttl); w.lead(life, k.member) }) // all have said by then that they live
		w.all.Go(func() { w.turn(life, stop) })
	} else {
		w.all.Go(func() { w.offer(life) })
	}
	w.all.Go(func() { w.followWays(life) })
	return nil
}

// close ends it; the keys under leases go when those end, or before by resign.
func (w *warden) close() {
	if w != nil {
		w.cancel()
		_ = w.c.Close() // so that nothing waits for an answer; it is the keeper's
		w.all.Wait()
	}
}

func (w *warden) card() keepingCard {
	_, serves := serverOf(w.k.cfg.Rank, w.k.job)
	return keepingCard{Host: hostLabel(w.k.cfg.HostLabel), Serves: serves}
}

func (w *warden) putCard(ctx context.Context, prefix string, card keepingCard, s *coord.Session) error {
	text, err := json.Marshal(card)
	if err == nil {
		_, err = w.c.Put(ctx, prefix+strconv.Itoa(w.k.cfg.Rank), text, s.Lease())
	}
	return err
}

// keeps says that this rank is a keeper and lives.
func (w *warden) keeps(ctx context.Context) (*coord.Session, error) {
	s, err := coord.NewSession(ctx, w.c, w.ttl)
	if err != nil {
		return nil, err
	}
	if err := w.putCard(ctx, keepingPrefix, w.card(), s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// stay goes on saying so. One that was missed says so again: it may be a member still.
func (w *warden) stay(life context.Context, s *coord.Session) {
	for {
		select {
		case <-life.Done():
			_ = s.Close() // else its lease ends by itself
			return
		case <-s.Lost():
		}
		for life.Err() == nil {
			again, err := w.keeps(life)
			if err == nil {
				s = again
				break
			}
			pause(life, w.ttl/3)
		}
	}
}

// pause is a while, or the end of life.
func pause(life context.Context, d time.Duration) {
	select {
	case <-life.Done():
	case <-time.After(d):
	}
}

// lead does what is to be done while this member leads the others. What fails is tried
// again: whether it has happened shows.
func (w *warden) lead(life context.Context, m *etcd.Embedded) {
	for life.Err() == nil {
		select {
		case <-m.Ended():
			return
		default:
		}
		if m.Leads() {
			_ = w.look(life, m)
		}
		pause(life, wardenEvery)
	}
}

func (w *warden) look(life context.Context, m *etcd.Embedded) error {
	ctx, cancel := context.WithTimeout(life, changeWithin)
	defer cancel()
	v := keepersView{want: w.word.Members}
	ways, _, err := w.c.List(ctx, wayPrefix) // before the members: a new one's way comes behind its vote
	if err != nil {
		return err
	}
	if v.members, err = m.Members(ctx); err != nil {
		return err
	}
	// One that led may have died between a removal and this.
	if err := w.forgetWays(ctx, ways, v.members); err != nil {
		return err
	}
	if v.living, err = cards(ctx, w.c, keepingPrefix); err != nil {
		return err
	}
	if v.offers, err = cards(ctx, w.c, offerPrefix); err != nil {
		return err
	}
	switch do := v.next(); do.kind {
	case removeMember:
		return m.Remove(ctx, do.id)
	case addMember:
		return m.Add(ctx, v.offers[do.rank].Peer)
	case promoteMember:
		if err := w.call(ctx, do.rank, &v); err != nil {
			return err
		}
		return m.Promote(ctx, do.id)
	}
	return nil
}

// forgetWays takes away those of ranks that are no keepers any more.
func (w *warden) forgetWays(ctx context.Context, ways []coord.KV, members []etcd.Member) error {
	for _, kv := range ways {
		name := strings.TrimPrefix(kv.Key, wayPrefix)
		if slices.ContainsFunc(members, func(m etcd.Member) bool { return m.Name == name }) {
			continue
		}
		if _, err := w.c.Delete(ctx, kv.Key); ignore(err, coord.ErrNotFound) != nil {
			return err
		}
	}
	return nil
}

// call tells who was added who the others are.
func (w *warden) call(ctx context.Context, rank int, v *keepersView) error {
	word := calledWord{Peers: map[string]string{}}
	for _, m := range v.members {
		name := m.Name
		if m.Learner {
			name = strconv.Itoa(rank)
		}
		word.Peers[name] = m.Addr
	}
	key := calledPrefix + strconv.Itoa(rank) + "/"
	if _, err := w.c.Get(ctx, key); !errors.Is(err, coord.ErrNotFound) {
		return err
	}
	text, err := json.Marshal(word)
	if err == nil {
		_, err = w.c.Put(ctx, key, text, 0)
	}
	return err
}

func cards(ctx context.Context, c coord.Coordinator, prefix string) (map[int]keepingCard, error) {
	kvs, _, err := c.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	all := map[int]keepingCard{}
	for _, kv := range kvs {
		var card keepingCard
		if r, err := strconv.Atoi(strings.TrimPrefix(kv.Key, prefix)); err == nil && json.Unmarshal(kv.Value, &card) == nil {
			all[r] = card
		}
	}
	return all, nil
}

// offer has this rank ready to take a keeper's place, and takes it when it is called.
// Where that fails it offers itself again: the others may have nobody else.
func (w *warden) offer(life context.Context) {
	for said := ""; life.Err() == nil; pause(life, w.ttl) {
		err := w.succeed(life)
		if err == nil {
			return
		}
		if said != err.Error() && life.Err() == nil && w.k.cfg.Events != nil {
			said = err.Error()
			w.k.cfg.Events(train.Event{Warning: fmt.Sprintf("%s does not keep the coordinator in another's place yet: %v; it offers itself again", nameIn(w.k.cfg.Rank, w.k.job), err)})
		}
	}
}

func (w *warden) succeed(life context.Context) error {
	k := w.k
	called := calledPrefix + strconv.Itoa(k.cfg.Rank) + "/"
	for life.Err() == nil {
		first, err := w.awaitRoom(life)
		if err != nil {
			return err
		}
		s, err := coord.NewSession(life, w.c, w.ttl)
		if err != nil {
			return err
		}
		word, port, err := w.offerOnce(life, s, called, first)
		if word != nil {
			return errors.Join(w.become(life, s, port, word), port.Release())
		}
		_ = s.Close() // its lease ends by itself
		if err != nil && !errors.Is(err, coord.ErrConflict) {
			return err
		}
	}
	return nil
}

// offerOnce offers this rank until it is called, and the session holds. Without a word
// and an error the session was lost; coord.ErrConflict: others offer themselves already.
func (w *warden) offerOnce(life context.Context, s *coord.Session, called string, first bool) (word *calledWord, port *etcd.Port, err error) {
	if err := w.takeRoom(life, s, first); err != nil {
		return nil, nil, err
	}
	if port, err = etcd.HoldPort(life, w.k.cfg.reached()); err != nil {
		return nil, nil, err
	}
	defer func() {
		if word == nil {
			err = errors.Join(err, port.Release())
		}
	}()
	if _, err := w.c.Delete(life, called); ignore(err, coord.ErrNotFound) != nil { // of an earlier offer, which is over
		return nil, nil, err
	}
	card := w.card()
	card.Peer = port.Addr
	if err := w.putCard(life, offerPrefix, card, s); err != nil {
		return nil, nil, err
	}
	word, err = w.awaitCall(life, s, called)
	return word, port, err
}

// takeRoom makes this rank one of the few that offer themselves; first: only where it is
// the first of its host.
func (w *warden) takeRoom(life context.Context, s *coord.Session, first bool) error {
	self := []byte(strconv.Itoa(w.k.cfg.Rank))
	if first {
		if _, err := w.c.CompareAndPut(life, firstPrefix+w.card().Host, self, 0, s.Lease()); err != nil {
			return err
		}
	}
	for i := range offers {
		_, err := w.c.CompareAndPut(life, roomPrefix+strconv.Itoa(i), self, 0, s.Lease())
		if !errors.Is(err, coord.ErrConflict) {
			return err
		}
	}
	return coord.ErrConflict
}

// awaitRoom waits until fewer ranks offer themselves than may. Until then this one holds
// no lease and no port: of a thousand ranks most never do. Where there is room those come
// first who would be chosen first, see keepersView.best; the others wait a little, and look
// again. first: nobody else of its host is a keeper or would be.
func (w *warden) awaitRoom(life context.Context) (first bool, err error) {
	for waited := false; ; {
		taken, rev, err := w.c.List(life, roomPrefix)
		if err != nil {
			return false, err
		}
		if len(taken) < offers {
			first, err := w.isFirst(life)
			late := time.Duration(0)
			if !first {
				late = 2
			}
			if !w.card().Serves { // workers come and go more
				late++
			}
			if err != nil || late == 0 || waited {
				return first, err
			}
			pause(life, late*w.ttl/10)
			waited = true
			continue
		}
		waited = false
		watch, err := w.c.Watch(life, roomPrefix, rev+1)
		if err != nil {
			return false, err
		}
		for gone := false; !gone; {
			e, ok := <-watch.Events()
			gone = !ok || e.Deleted
		}
		watch.Close()
		if life.Err() != nil {
			return false, context.Cause(life)
		}
	}
}

func (w *warden) isFirst(ctx context.Context) (bool, error) {
	host := w.card().Host
	if _, err := w.c.Get(ctx, firstPrefix+host); !errors.Is(err, coord.ErrNotFound) {
		return false, err
	}
	keeping, err := cards(ctx, w.c, keepingPrefix)
	if err != nil {
		return false, err
	}
	for _, k := range keeping {
		if k.Host == host {
			return false, nil
		}
	}
	return true, nil
}

// awaitCall waits for a call; nil without an error: the session was lost.
func (w *warden) awaitCall(life context.Context, s *coord.Session, key string) (*calledWord, error) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	for {
		_, rev, err := w.c.List(ctx, key)
		if err != nil {
			return nil, err
		}
		watch, err := w.c.Watch(ctx, key, rev+1)
		if err != nil {
			return nil, err
		}
		kv, err := w.c.Get(ctx, key)
		for events := watch.Events(); errors.Is(err, coord.ErrNotFound); {
			select {
			case <-life.Done():
				watch.Close()
				return nil, nil
			case <-s.Lost():
				watch.Close()
				return nil, nil
			case _, ok := <-events:
				if kv, err = w.c.Get(ctx, key); !ok && errors.Is(err, coord.ErrNotFound) {
					err = coord.ErrLagging
				}
			}
		}
		watch.Close()
		if errors.Is(err, coord.ErrLagging) {
			continue
		}
		if err != nil {
			return nil, err
		}
		word := &calledWord{}
		return word, json.Unmarshal(kv.Value, word)
	}
}

// become makes this rank a keeper: a member that has its vote and offers a way.
func (w *warden) become(life context.Context, offered *coord.Session, port *etcd.Port, word *calledWord) (err error) {
	k := w.k
	ctx, cancel := context.WithTimeout(life, votesWithin)
	defer cancel()
	s, err := w.keeps(ctx)
	if err != nil {
		return errors.Join(err, offered.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		if closed := offered.Close(); err != nil { // who keeps it offers no more; the lease ends by itself
			err = errors.Join(err, closed)
		}
	}()
	n := &keeper{cfg: k.cfg, job: k.job}
	if err = n.openScratch(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	m := etcd.MemberConfig{Name: strconv.Itoa(k.cfg.Rank), Peers: word.Peers, Joins: true, Cluster: w.word.Cluster, Credentials: w.word.Credentials}
	if n.member, err = etcd.StartMember(ctx, n.scratch.Path, m); err != nil {
		return err
	}
	n.unlinkAtEnd()
	if err = port.Release(); err != nil {
		return err
	}
	for !n.member.Votes() {
		select {
		case <-n.member.Ended():
			return errors.New("the others have taken it out again before it had a vote")
		default:
		}
		if pause(ctx, wardenEvery/5); ctx.Err() != nil {
			return fmt.Errorf("no vote within %v: %w", votesWithin, ctx.Err())
		}
	}
	n.store = n.member.Store(prefix(k.cfg.Token))
	if n.listener, err = k.cfg.accept("tcp", net.JoinHostPort(k.cfg.reached(), "0")); err != nil {
		return err
	}
	n.way = remote.ServeOneOf(n.listener, n.store)
	if _, err = w.c.Put(ctx, wayPrefix+strconv.Itoa(k.cfg.Rank), []byte(n.listener.Addr().String()), 0); err != nil {
		return err
	}
	k.mu.Lock()
	k.later = n
	k.mu.Unlock()
	if k.cfg.Events != nil {
		k.cfg.Events(train.Event{Warning: fmt.Sprintf("%s keeps the coordinator in another's place: a way to it is at %s", nameIn(k.cfg.Rank, k.job), n.listener.Addr())})
	}
	keeping, stop := context.WithCancel(life)
	w.all.Go(func() { w.stay(keeping, s) })
	w.all.Go(func() { w.lead(life, n.member) })
	w.all.Go(func() {
		defer stop()
		select {
		case <-life.Done():
			return
		case <-n.member.Ended():
		}
		stop()
		k.mu.Lock()
		k.later = nil
		k.mu.Unlock()
		_ = n.close() // its clients find another
		w.again(life)
	})
	return nil
}

// turn has a keeper that the others have gone on without ask them, and be ready to be
// one again.
func (w *warden) turn(life context.Context, stop context.CancelFunc) {
	defer stop()
	select {
	case <-life.Done():
		return
	case <-w.k.member.Ended():
	}
	stop()                                 // it keeps nothing
	_ = w.k.way.Close()                    // its clients find another
	_ = w.k.turning.to(w.k.known.client()) // the member is gone already
	w.again(life)
}

// again offers this rank anew that the others have gone on without: it may have been
// away only.
func (w *warden) again(life context.Context) {
	if !w.resigned.Load() {
		w.offer(life)
	}
}

// followWays keeps the ways of now.
func (w *warden) followWays(life context.Context) { followWays(life, w.c, w.k.known.set) }

// resign has the others go on without this keeper, which ends: they need not miss it.
func (w *warden) resign() {
	ctx, cancel := context.WithTimeout(context.Background(), changeWithin)
	defer cancel()
	w.resigned.Store(true)
	w.k.mu.Lock()
	later := w.k.later
	w.k.mu.Unlock()
	for _, k := range []*keeper{w.k, later} {
		if k == nil || k.member == nil {
			continue
		}
		select {
		case <-k.member.Ended():
			continue
		default:
		}
		rank := strconv.Itoa(k.cfg.Rank)
		// Where it fails the others miss it when its lease has ended.
		_, _ = k.store.Delete(ctx, wayPrefix+rank)
		_, _ = k.store.Delete(ctx, keepingPrefix+rank)
		_ = k.member.Resign(ctx)
	}
}
