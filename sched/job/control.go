package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/remote"
	"psrt/sched/place"
	"psrt/sched/replica"
	"psrt/sched/train"
)

// Control changes the servers of a job with chains while it runs.
type Control struct {
	Job   *train.Job
	Coord coord.Coordinator
	ways  *ways // nil: the user's etcd, which stays where it is
}

// Keys beside those of doc.go.
const (
	// addedPrefix + number: a server that was asked for after the job began. Its
	// value is byLauncher or byItself and a word of who asked, or begins with
	// refusedPrefix.
	addedPrefix = "added/"
	byLauncher  = "launcher"
	byItself    = "itself"
	// refusedPrefix begins the value when that server could not begin; why follows.
	refusedPrefix = "refused: "
	// keyKeeper says who keeps the store, where that is a process of the job.
	keyKeeper = "keeper"
	rank0     = "rank 0"
)

// attachTimeout bounds reaching a job, and one look at it.
const attachTimeout = 10 * time.Second

// AttachLauncher reaches the job of a launcher of this machine by its directory.
func AttachLauncher(ctx context.Context, dir string, token []byte) (*Control, error) {
	return Attach(ctx, "unix:"+filepath.Join(dir, coordinatorName), token, StoreConfig{})
}

// TokenOf is the file with the token of a launcher's job.
func TokenOf(dir string) string { return filepath.Join(dir, tokenName) }

// Attach reaches a job at its rank 0, or in the user's etcd.
func Attach(ctx context.Context, addr string, token []byte, sc StoreConfig) (*Control, error) {
	whole, began := ctx, time.Now()
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	k, err := attach(ctx, addr, token, sc)
	if err != nil {
		return nil, Unanswered(whole, addr, token, attachTimeout, err)
	}
	c := k.Coord
	kv, err := c.Get(ctx, keyJob)
	switch {
	case errors.Is(err, coord.ErrNotFound):
		err = badInput("job: no job with this token runs there; check --coordinator and --token-file")
	case err == nil:
		err = json.Unmarshal(kv.Value, &k.Job)
	default:
		err = Unanswered(whole, addr, token, time.Since(began).Round(time.Second/10), err)
	}
	if err == nil && !k.Job.Chained() {
		err = badInput("job: its servers stay what they are: it was started without --replicas and without --groups; with either of them servers can be added and removed")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return k, nil
}

func attach(ctx context.Context, addr string, token []byte, sc StoreConfig) (*Control, error) {
	if sc.Durable() {
		c, err := openStore(ctx, sc, token, false)
		return &Control{Coord: c}, err
	}
	w := waysTo(addr, token)
	c, err := remote.Dial(ctx, w.dial)
	switch {
	case errors.Is(err, secure.ErrToken):
		return nil, badInput("job: the coordinator at %s holds another token: give the job's --token-file", addr)
	case err != nil:
		return nil, fmt.Errorf("job: the coordinator at %s cannot be reached: %w; check --coordinator, and that the job runs", addr, err)
	}
	return &Control{Coord: c, ways: w}, nil
}

// Follow has it reach the job by other addresses once those of now are gone: keepers of a
// coordinator come and go.
func (k *Control) Follow(addrs string) {
	if k.ways != nil {
		k.ways.set(strings.Split(addrs, ","))
	}
}

// Close ends the connection.
func (k *Control) Close() error { return k.Coord.Close() }

// ServerInfo is one server of a running job.
type ServerInfo struct {
	Server int `json:"server"`
	// Generation is of its process by the map, which counts those of the number; 0: the
	// map does not have it.
	Generation uint64 `json:"generation,omitempty"`
	Addr       string `json:"address,omitempty"`
	Host       string `json:"host,omitempty"`
	Rack       string `json:"rack,omitempty"`
	// Weight is its share of the groups, relative to the others'.
	Weight  float64 `json:"weight"`
	PID     int     `json:"pid,omitempty"`
	Listed  bool    `json:"registered"` // it has said lately that it lives
	Leaving bool    `json:"leaving,omitempty"`
	Heads   int     `json:"heads"`  // groups whose workers it serves
	Groups  int     `json:"groups"` // of which it has a replica
	Joins   int     `json:"joins"`  // which it is copying
	// Speaks is the newest version of the wire that its program speaks; 0: the map does not say.
	Speaks int `json:"speaks,omitempty"`
}

// State is how a server is, in a word or two.
func (s *ServerInfo) State() string {
	switch {
	case s.Leaving:
		return "leaving"
	case !s.Listed:
		return "silent"
	case s.Generation == 0: // no map names this process: it was cut out after a silence, or has only come
		return "not in the map"
	case s.Groups == 0 && s.Joins > 0:
		return "joining"
	case s.Groups == 0:
		return "without groups"
	}
	return "well"
}

// View is a job's servers at one moment.
type View struct {
	Epoch    uint64       `json:"epoch"`
	Replicas int          `json:"replicas"`
	Groups   int          `json:"groups"`
	Short    int          `json:"groups_short"` // with fewer replicas than asked for
	Joins    int          `json:"joins"`        // replicas being copied
	Servers  []ServerInfo `json:"servers"`
	Keepers  []KeeperInfo `json:"keepers,omitempty"` // of the coordinator, where ranks keep it together
}

// View looks.
func (k *Control) View(ctx context.Context) (*View, error) {
	began := time.Now()
	v, err := k.view(ctx)
	switch {
	case err == nil || k.ways == nil || ctx.Err() != nil:
	case remote.StoreAway(err):
		err = withoutStore(err)
	case errors.Is(err, context.DeadlineExceeded):
		err = k.ways.unanswered(ctx, time.Since(began).Round(time.Second/10), err)
	}
	return v, err
}

func (k *Control) view(ctx context.Context) (*View, error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	kv, err := k.Coord.Get(ctx, replica.KeyMap)
	if errors.Is(err, coord.ErrNotFound) {
		return nil, errors.New("job: its servers are only starting; try again")
	}
	if err != nil {
		return nil, err
	}
	m, err := place.Decode(kv.Value, uint64(kv.Revision))
	if err != nil {
		return nil, err
	}
	listed, err := registered(ctx, k.Coord)
	if err != nil {
		return nil, err
	}
	v := look(m, listed)
	for i := range v.Servers {
		if _, err := k.Coord.Get(ctx, replica.LeavingKey(v.Servers[i].Server)); err == nil {
			v.Servers[i].Leaving = true
		}
	}
	v.Keepers, err = keepersNow(ctx, k.Coord, k.Job)
	return v, err
}

// registered are the servers that say that they live.
func registered(ctx context.Context, c coord.Coordinator) (all []replica.Registration, err error) {
	prefix := strings.TrimSuffix(replica.ServerKey(0), "0")
	kvs, _, err := c.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	for _, kv := range kvs {
		r, err := replica.DecodeRegistration(kv.Key, kv.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func look(m *place.Chains, listed []replica.Registration) *View {
	v := &View{Epoch: m.Epoch, Replicas: m.Replicas, Groups: len(m.Groups)}
	at := map[int]*ServerInfo{}
	of := func(s place.Server) *ServerInfo {
		i := at[s.ID]
		if i == nil {
			i = &ServerInfo{Server: s.ID, Addr: s.Addr, Host: s.Host, Rack: s.Rack, Weight: cmp.Or(s.Weight, 1)}
			at[s.ID] = i
		}
		return i
	}
	for _, s := range m.Servers {
		i := of(s)
		i.Generation, i.Speaks = s.Gen, s.Speaks
	}
	for _, r := range listed {
		i := of(r.Server)
		i.Listed, i.PID, i.Addr = true, r.PID, r.Addr
	}
	for _, g := range m.Groups {
		for n, x := range g.Chain {
			at[x.Server].Groups++
			if n == 0 {
				at[x.Server].Heads++
			}
		}
		if g.Joiner != nil {
			v.Joins++
			at[g.Joiner.Server].Joins++
		}
		if len(g.Chain) < m.Replicas {
			v.Short++
		}
	}
	for _, i := range at {
		v.Servers = append(v.Servers, *i)
	}
	slices.SortFunc(v.Servers, func(a, b ServerInfo) int { return a.Server - b.Server })
	return v
}

// Reserve takes the number of a server to come, of a job's launcher or of this
// process. No number is given twice.
func (k *Control) Reserve(ctx context.Context, itself bool) (number int, err error) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	by := byLauncher
	if itself {
		by = byItself
	}
	mine := []byte(by + " " + rand.Text())
	taken, _, err := k.Coord.List(ctx, addedPrefix)
	if err != nil {
		return 0, err
	}
	number = k.Job.Servers
	for _, kv := range taken {
		if n, err := strconv.Atoi(strings.TrimPrefix(kv.Key, addedPrefix)); err == nil {
			number = max(number, n+1)
		}
	}
	for ; ; number++ {
		_, err := coord.PutNew(ctx, k.Coord, addedPrefix+strconv.Itoa(number), mine, 0)
		if !errors.Is(err, coord.ErrConflict) {
			return number, err
		}
	}
}

// Refused is why a server that was asked for could not begin; nil while nobody says so.
func (k *Control) Refused(ctx context.Context, number int) error {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	kv, err := k.Coord.Get(ctx, addedPrefix+strconv.Itoa(number))
	if err != nil {
		return err
	}
	if why, refused := strings.CutPrefix(string(kv.Value), refusedPrefix); refused {
		return badInput("job: %s; the job goes on without it", why)
	}
	return nil
}

// Remove asks a server to give its groups to others and to end; force: though fewer are
// left than rows are to have replicas.
func (k *Control) Remove(ctx context.Context, number int, force bool) error {
	v, err := k.View(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(v.Servers, func(s ServerInfo) bool { return s.Server == number })
	others := 0
	for _, s := range v.Servers {
		if s.Server != number && s.Listed && !s.Leaving {
			others++
		}
	}
	left, places := room(v, number, k.Job.AllowSameHost)
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	keeper, err := k.Coord.Get(ctx, keyKeeper)
	switch {
	case err != nil && !errors.Is(err, coord.ErrNotFound):
		return err
	case i < 0:
		return badInput("job: there is no server %d; psrt server ls shows them", number)
	case others == 0:
		return badInput("job: server %d is the last one: nobody could take its groups; add one first", number)
	case number == 0 && err == nil && string(keeper.Value) == rank0:
		return badInput("job: server 0 keeps the job's coordinator, which would end with it: it can be removed from jobs with --replicas 2, or with --coordinator https://…, your etcd")
	}
	if left < v.Replicas && v.Servers[i].Listed && !force {
		return badInput("job: without server %d there are %d %s for --replicas %d: every row would have %d replica(s), and as many deaths more would end the job; add a server first (psrt server add), or say --force",
			number, left, places, v.Replicas, left)
	}
	if err := mayLeave(ctx, k.Coord, k.Job, rankOf(number, k.Job), number); err != nil {
		return err
	}
	_, err = k.Coord.Put(ctx, replica.LeavingKey(number), nil, 0)
	return err
}

// room is how many replicas of a row the servers but one have places for, and what these
// places are.
func room(v *View, but int, sameHost bool) (n int, places string) {
	all := map[string]bool{}
	for i := range v.Servers {
		s := &v.Servers[i]
		switch {
		case s.Server == but || !s.Listed || s.Leaving || s.Generation == 0: // one that has only come takes nothing yet
		case sameHost:
			all[strconv.Itoa(s.Server)] = true
		case s.Rack != "":
			all["rack "+s.Rack] = true
		default:
			all["host "+s.Host] = true
		}
	}
	if sameHost {
		return len(all), "server(s) that have joined"
	}
	return len(all), "hosts or racks with servers that have joined"
}

// mayLeave refuses that a rank goes without which those that keep the store could agree
// on nothing any more.
func mayLeave(ctx context.Context, c coord.Coordinator, j *train.Job, rank, number int) error {
	keepers, err := keepersNow(ctx, c, j)
	if err != nil {
		return err
	}
	keeps, left := false, 0
	for _, k := range keepers {
		if k.Rank == rank {
			keeps = true
		} else if k.Lives {
			left++
		}
	}
	if keeps && left <= (len(keepers)-1)/2 {
		return badInput("job: server %d is one of %d ranks that keep the job's coordinator, of which %d live: the others could agree on nothing without it; wait until another rank has taken a dead one's place, or add a server first", number, len(keepers), left+1)
	}
	return nil
}

// settleEvery is how often a change under way is looked at.
const settleEvery = 200 * time.Millisecond

// Settle waits until done is true of the servers, and tells each view before that.
func (k *Control) Settle(ctx context.Context, done func(*View) bool, tell func(*View)) error {
	for {
		v, err := k.View(ctx)
		if err != nil {
			return err
		}
		if done(v) {
			return nil
		}
		tell(v)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settleEvery):
		}
	}
}

// Find is a server of a view, nil if there is none with that number.
func (v *View) Find(number int) *ServerInfo {
	for i := range v.Servers {
		if v.Servers[i].Server == number {
			return &v.Servers[i]
		}
	}
	return nil
}

// Whole says that nothing is being copied and nothing is missing, as far as there
// are hosts for it.
func (v *View) Whole() bool { return v.Joins == 0 && v.Short == 0 }

// RunAdded is a server with a number that Reserve gave, in this process, until the job
// ends or it was removed.
func RunAdded(ctx context.Context, addr string, number int, k *Control, cfg RankConfig) (*train.Result, error) {
	cfg.Rank, cfg.World = rankOf(number, k.Job), k.Job.World()
	if len(cfg.Store.Endpoints) > 0 {
		u, err := url.Parse(cfg.Store.Endpoints[0])
		if err != nil {
			return nil, err
		}
		addr = u.Host // for the way there
	}
	return JoinAndRun(ctx, addr, cfg)
}
