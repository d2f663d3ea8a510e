package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/etcd"
	"psrt/sched/coord/patient"
	"psrt/sched/coord/remote"
	"psrt/sched/launch"
	"psrt/sched/train"
)

// keeper is this rank's part in the store of its job: as one that keeps it, or as a
// client of those.
type keeper struct {
	cfg   *RankConfig
	job   *train.Job
	wish  *keepersWish
	ranks []int // that keep it
	ways  []string

	store    coord.Coordinator // what this rank asks
	way      *remote.Server    // of a rank that keeps it, as what follows
	listener *secure.Listener
	port     *etcd.Port
	member   *etcd.Embedded
	scratch  *launch.Scratch

	known   *ways    // to the store, of now; nil where they do not change
	turning *turning // store, of a rank that keeps it from the beginning
	warden  *warden

	mu    sync.Mutex
	later *keeper // what it keeps since it has taken another's place
}

// followersLearn is how long a member stays when everybody has ended, so that the others
// learn it from the last leader: some of its heartbeats.
const followersLearn = 200 * time.Millisecond

// keep brings a job that asks for it from rank 0's memory to a store that survives its
// processes. All ranks of a job call it at its beginning. nil: the job asks for none.
func keep(ctx context.Context, cfg *RankConfig, job *train.Job, wish *keepersWish) (_ *keeper, err error) {
	if wish == nil {
		return nil, nil
	}
	k := &keeper{cfg: cfg, job: job, wish: wish}
	ctx, cancel := context.WithTimeout(ctx, cfg.JoinTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("job: %s: a store that survives rank 0: %w", nameIn(cfg.Rank, job), err), k.close())
			raise(cfg.Coord, nameIn(cfg.Rank, job), err)
		}
	}()
	var cards []keeperCard
	if err := k.gather(ctx, "keepers", keeperCard{hostLabel(cfg.HostLabel), cfg.Rank < job.Servers, cfg.Own.Durable()}, &cards); err != nil {
		return nil, err
	}
	k.ranks = wish.choose(cards)
	var word keeperWord
	if slices.Contains(k.ranks, cfg.Rank) {
		if word, err = k.prepare(ctx); err != nil {
			return nil, err
		}
	}
	var words []keeperWord
	if err := k.gather(ctx, "keepers-at", word, &words); err != nil {
		return nil, err
	}
	for _, r := range k.ranks {
		k.ways = append(k.ways, words[r].Way)
	}
	if err := k.open(ctx, words); err != nil {
		return nil, err
	}
	// Nobody goes on before the store has what rank 0 had.
	if err := k.party("keepers-up").Barrier(ctx, cfg.Coord); err != nil {
		return nil, err
	}
	if cfg.Hosted != nil {
		cfg.Hosted.handOver(k.store)
	}
	if cfg.Rank == 0 && wish.Own { // who comes later finds the ways alone
		if _, err := patient.New(k.store, nil).Delete(ctx, keyKeepers); err != nil && !errors.Is(err, coord.ErrNotFound) {
			return nil, err
		}
	}
	if !wish.Own {
		if err := k.guard(ctx); err != nil {
			return nil, err
		}
	}
	cfg.Coord, cfg.met = k.store, strings.Join(k.ways, ",")
	if cfg.Rank == 0 && cfg.Events != nil {
		cfg.Events(train.Event{Note: k.note()})
	}
	return k, nil
}

func (k *keeper) note() string {
	var names []string
	for _, r := range k.ranks {
		names = append(names, nameIn(r, k.job))
	}
	return fmt.Sprintf("the coordinator survives server 0: there is a way to it at %s (%s)", strings.Join(names, ", "), strings.Join(k.ways, ","))
}

func (k *keeper) party(name string) coord.Party {
	return coord.Party{Name: name, N: k.cfg.World, ID: k.cfg.Rank, Who: func(r int) string { return nameIn(r, k.job) }}
}

// gather brings what all ranks say, in rank 0's memory.
func (k *keeper) gather(ctx context.Context, name string, own, all any) error {
	b, err := json.Marshal(own)
	if err != nil {
		return err
	}
	said, err := k.party(name).Gather(ctx, k.cfg.Coord, b)
	if err != nil {
		return err
	}
	b = append(append([]byte("["), joinBytes(said)...), ']')
	if err := json.Unmarshal(b, all); err != nil {
		return fmt.Errorf("%s is not understood: %w; run the same psrt everywhere", name, err)
	}
	return nil
}

func joinBytes(said [][]byte) (all []byte) {
	for i, b := range said {
		if i > 0 {
			all = append(all, ',')
		}
		all = append(all, b...)
	}
	return all
}

// prepare says where this rank will keep the store.
func (k *keeper) prepare(ctx context.Context) (w keeperWord, err error) {
	host := k.cfg.reached()
	if k.listener, err = k.cfg.accept("tcp", net.JoinHostPort(host, "0")); err != nil {
		return w, err
	}
	w.Way = k.listener.Addr().String()
	if k.wish.Own {
		return w, nil
	}
	if k.port, err = etcd.HoldPort(ctx, host); err != nil {
		return w, err
	}
	w.Peer = k.port.Addr
	if k.cfg.Rank == 0 {
		all, err := etcd.Issue()
		if err != nil {
			return w, err
		}
		w.Credentials = &all
	}
	return w, nil
}

// reached is the host at which the others reach this rank.
func (cfg *RankConfig) reached() string {
	for _, listen := range []string{cfg.Listen, cfg.near} {
		if network, addr := splitAddr(listen); network == "tcp" {
			if host, _, err := net.SplitHostPort(addr); err == nil && host != "" {
				if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
					return host
				}
			}
		}
	}
	return "127.0.0.1"
}

// open gives this rank the store.
func (k *keeper) open(ctx context.Context, words []keeperWord) (err error) {
	switch {
	case k.listener == nil:
		w := waysTo(strings.Join(k.ways, ","), k.cfg.Token)
		if len(k.ways) == 0 { // rank 0's etcd alone
			k.store = k.cfg.Coord
			return nil
		}
		w.next = k.cfg.Rank % len(k.ways) // not all at the first
		k.store, k.known = w.client(), w
		return nil
	case k.wish.Own && k.cfg.Hosted != nil:
		k.store = unowned{k.cfg.Hosted.store}
	case k.wish.Own:
		if k.store, err = openStore(ctx, k.cfg.Own, k.cfg.Token, false); err != nil {
			return err
		}
	default:
		if err = k.join(ctx, words); err != nil {
			return err
		}
	}
	k.way = remote.ServeOneOf(k.listener, k.store)
	c := patient.New(k.store, nil) // its members may be short of cores, and choose whom to follow again
	if _, err := c.Put(ctx, wayPrefix+strconv.Itoa(k.cfg.Rank), []byte(k.listener.Addr().String()), 0); err != nil {
		return err
	}
	if k.cfg.Rank > 0 || k.wish.Own {
		return nil
	}
	text, err := json.Marshal(successionWord{Members: k.wish.Members, Cluster: prefix(k.cfg.Token), Credentials: *words[0].Credentials})
	if err != nil {
		return err
	}
	if _, err := c.Put(ctx, keySuccession, text, 0); err != nil {
		return err
	}
	return publish(ctx, c, k.job, true)
}

// unowned is a store that somebody else closes.
type unowned struct{ coord.Coordinator }

func (unowned) Close() error { return nil }

// join starts this rank's member of the etcd.
func (k *keeper) join(ctx context.Context, words []keeperWord) (err error) {
	given := words[0].Credentials
	if given == nil {
		return errors.New("rank 0 gives its members no credentials; run the same psrt everywhere")
	}
	m := etcd.MemberConfig{Name: strconv.Itoa(k.cfg.Rank), Peers: map[string]string{}, Cluster: prefix(k.cfg.Token), Credentials: *given}
	for _, r := range k.ranks {
		m.Peers[strconv.Itoa(r)] = words[r].Peer
	}
	if err = k.openScratch(); err != nil {
		return err
	}
	if err = k.begin(ctx, m); err != nil {
		return err
	}
	if err = k.member.Ready(ctx); err != nil {
		k.member = nil // it has ended
		return err
	}
	k.unlinkAtEnd()
	k.turning = &turning{c: k.member.Store(prefix(k.cfg.Token))}
	k.store, k.known = k.turning, waysTo(strings.Join(k.ways, ","), k.cfg.Token)
	return k.port.Release()
}

// follow is for ranks that come later: they go to wherever the store is now.
func follow(ctx context.Context, cfg *RankConfig, job *train.Job) (*keeper, error) {
	all, err := WaysIn(ctx, cfg.Coord)
	if err != nil || all == "" {
		return nil, err
	}
	w := waysTo(all, cfg.Token)
	k := &keeper{cfg: cfg, job: job, ways: w.addrs, store: w.client(), known: w}
	if err := k.guard(ctx); err != nil {
		return nil, errors.Join(err, k.close())
	}
	cfg.Coord, cfg.met = k.store, all
	return k, nil
}

// turnWithin bounds how long a member waits for the one before it to begin. Where that is
// late they begin together, and later.
const turnWithin = 5 * time.Second

// begunPrefix has the ranks whose member of the etcd has begun, or never will.
const begunPrefix = "keepers-begun/"

// begin starts this rank's member when the one before it has begun: see etcd.BeginMember.
func (k *keeper) begin(ctx context.Context, m etcd.MemberConfig) (err error) {
	if i := slices.Index(k.ranks, k.cfg.Rank); i > 0 {
		turn, cancel := context.WithTimeout(ctx, turnWithin)
		_, _ = coord.Await(turn, k.cfg.Coord, begunPrefix+strconv.Itoa(k.ranks[i-1])) // it is no more than a turn
		cancel()
	}
	k.member, err = etcd.BeginMember(k.scratch.Path, m)
	_, told := k.cfg.Coord.Put(ctx, begunPrefix+strconv.Itoa(k.cfg.Rank), nil, 0)
	return errors.Join(err, told)
}

// openScratch makes the folder of this rank's member.
func (k *keeper) openScratch() (err error) {
	k.scratch, err = launch.OpenScratch(os.TempDir())
	return err
}

// unlinkAtEnd has the folder go when somebody ends this rank: launchers kill whoever has
// not ended within a second or two.
func (k *keeper) unlinkAtEnd() {
	if k.cfg.asked == nil { // a test that keeps without RunRank
		return
	}
	member, scratch := k.member, k.scratch
	context.AfterFunc(k.cfg.asked, func() {
		member.Abandon()
		_ = scratch.Unlink() // close does, too
	})
}

// end leaves the store when nobody needs it any more; err is what became of this rank.
func (k *keeper) end(interrupted bool, err error) error {
	if k == nil {
		return nil
	}
	var aborted *coord.AbortError
	if interrupted && k.keeps() && k.warden != nil { // they are told who ended the job
		time.Sleep(followersLearn)
	}
	if k.keeps() && !interrupted && (err == nil || errors.As(err, &aborted)) {
		switch all := awaitEnds(patient.New(k.store, nil), k.job, err); {
		case all && k.warden != nil:
			time.Sleep(followersLearn)
		case !all && k.warden != nil && err == nil: // it was taken out of the job
			k.warden.resign()
		}
	}
	return k.close()
}

// keeps says whether others ask this rank for the store.
func (k *keeper) keeps() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.way != nil || k.later != nil
}

func (k *keeper) close() (err error) {
	switch {
	case k.way != nil:
		err = k.way.Close()
	case k.listener != nil:
		err = k.listener.Close()
	}
	k.warden.close()
	if k.later != nil { // nobody else sees it any more
		err = errors.Join(err, k.later.close())
	}
	if k.store != nil {
		err = errors.Join(err, k.store.Close())
	}
	if k.member != nil {
		err = errors.Join(err, k.member.Leave())
	}
	if k.port != nil {
		err = errors.Join(err, k.port.Release())
	}
	if k.scratch != nil {
		err = errors.Join(err, k.scratch.Close())
	}
	return err
}
