package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"psrt/rdma/secure"
	"psrt/sched/coord"
	"psrt/sched/coord/remote"
	"psrt/sched/doctor"
	"psrt/sched/launch"
	"psrt/sched/metrics"
	"psrt/sched/train"
)

// statusPrefix begins the keys under which ranks say where they show themselves.
const statusPrefix = "status/"

// statusCard is a rank's.
type statusCard struct {
	Name string `json:"name"` // "worker 1"
	Host string `json:"host"`
	PID  int    `json:"pid"`
	Addr string `json:"addr"` // "host:port" or a path
}

func (c *statusCard) place(token []byte) metrics.Place {
	return metrics.Place{Name: fmt.Sprintf("%s on %s (pid %d)", c.Name, c.Host, c.PID), Addr: c.Addr, Token: token}
}

// joined is what a rank leaves in a folder that only its user can enter, so that
// psrt status finds the job on this host.
type joined struct {
	Coordinator string      `json:"coordinator"`
	Token       []byte      `json:"token"`
	Rank        *statusCard `json:"rank,omitempty"` // nil: of an older psrt
}

const joinedName = "job"

// beSeen lets whoever holds the job's token look at this rank until end. What
// cannot be shown is only told: the job does not depend on it.
func beSeen(ctx context.Context, cfg *RankConfig, job *train.Job) (end func()) {
	if !cfg.Seen {
		return func() {}
	}
	if cfg.Metrics == nil {
		cfg.Metrics = metrics.NewRank()
	}
	note := func(err error) {
		if cfg.Events != nil {
			cfg.Events(train.Event{Warning: fmt.Sprintf("psrt status will not see this rank: %v", err)})
		}
	}
	host, err := os.Hostname()
	if err != nil {
		note(err)
		return func() {}
	}
	network, address := seenAt(cfg.Listen)
	l, err := cfg.accept(network, address)
	if err != nil {
		note(err)
		return func() {}
	}
	e := metrics.On(l)
	e.Page(DoctorPath, func(context.Context) any { return doctor.Here() })
	e.Serve(cfg.Metrics.Gatherer())
	card := statusCard{Name: nameIn(cfg.Rank, job), Host: host, PID: os.Getpid(), Addr: l.Addr().String()}
	text, err := json.Marshal(card)
	if err == nil { // it stays: a rank that is dead is to be missed
		_, err = cfg.Coord.Put(ctx, fmt.Sprintf("%s%d", statusPrefix, cfg.Rank), text, 0)
	}
	if err != nil {
		note(err)
	}
	scratch, err := leaveJoined(cfg, &card)
	if err != nil {
		note(err)
	}
	following, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	if scratch != nil && Endpoints(cfg.met) == nil { // the user's etcd stays where it is
		all.Go(func() {
			followWays(following, cfg.Coord, func(addrs []string) {
				if len(addrs) > 0 { // what cannot be written now leaves those of before
					_ = writeJoined(scratch, &joined{strings.Join(addrs, ","), cfg.Token, &card})
				}
			})
		})
	}
	return func() {
		_ = e.Close() // whoever looks at an ending job can look again
		stop()
		all.Wait()
		if scratch != nil {
			_ = scratch.Close() // the next launcher sweeps it
		}
	}
}

// accept listens for who has the job's token; others are told of.
func (c *RankConfig) accept(network, address string) (*secure.Listener, error) {
	l, err := secure.Listen(network, address, c.Token)
	if err == nil && c.refused != nil {
		l.OnReject(c.refused.OnStranger)
		l.OnProve(c.refused.OnProve)
	}
	return l, err
}

// seenAt is beside where the rank listens.
func seenAt(listen string) (network, address string) {
	network, address = splitAddr(listen)
	switch host, _, err := net.SplitHostPort(address); {
	case network == "unix":
		return network, address + ".status"
	case err == nil:
		return network, net.JoinHostPort(host, "0")
	}
	return "tcp", "127.0.0.1:0"
}

func leaveJoined(cfg *RankConfig, card *statusCard) (*launch.Scratch, error) {
	if cfg.met == "" {
		return nil, nil
	}
	scratch, err := launch.OpenScratch(os.TempDir())
	if err != nil {
		return nil, err
	}
	if err := writeJoined(scratch, &joined{cfg.met, cfg.Token, card}); err != nil {
		return nil, errors.Join(err, scratch.Close())
	}
	if cfg.asked != nil { // else of a test: a launcher may kill the rank before it has ended
		context.AfterFunc(cfg.asked, func() { _ = scratch.Unlink() })
	}
	return scratch, nil
}

// writeJoined replaces the file: who reads it gets the whole of one or the other.
func writeJoined(scratch *launch.Scratch, j *joined) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	path := filepath.Join(scratch.Path, joinedName)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// DoctorPath of a rank's endpoint has what its machine offers.
const DoctorPath = "/doctor"

// Joined is a job of which ranks of this user run on this machine.
type Joined struct {
	Coordinator string
	Token       []byte
	// Here are the ranks on this machine, which can be asked though the coordinator
	// does not answer.
	Here []metrics.Place
	PIDs []int // of its ranks on this machine, at least one
}

// JoinedJobs finds those that launchers elsewhere have started ranks of here.
func JoinedJobs(parent string) (all []Joined, err error) {
	list, err := launch.Running(parent)
	if err != nil {
		return nil, err
	}
	for _, l := range list {
		text, err := os.ReadFile(filepath.Join(l.Path, joinedName))
		var j joined
		if err != nil || json.Unmarshal(text, &j) != nil {
			continue // a launcher of its own ranks
		}
		i := slices.IndexFunc(all, func(o Joined) bool { return j.same(o) })
		if i < 0 {
			i, all = len(all), append(all, Joined{Coordinator: j.Coordinator, Token: j.Token})
		}
		all[i].PIDs = append(all[i].PIDs, l.PID)
		if j.Rank != nil {
			all[i].Here = append(all[i].Here, j.Rank.place(j.Token))
		}
	}
	return all, nil
}

// same: another rank of the job has left it, a little before or after keepers changed.
func (j *joined) same(o Joined) bool {
	others := strings.Split(o.Coordinator, ",")
	return bytes.Equal(j.Token, o.Token) && slices.ContainsFunc(strings.Split(j.Coordinator, ","), func(a string) bool { return slices.Contains(others, a) })
}

// Reach connects to a job's coordinator: rank 0's, or the user's etcd. It does not
// wait for one that is not there.
func Reach(ctx context.Context, addr string, token []byte, sc StoreConfig) (coord.Coordinator, error) {
	if sc.Endpoints = Endpoints(addr); sc.Durable() {
		return openStore(ctx, sc, token, false)
	}
	c, err := remote.Dial(ctx, waysTo(addr, token).dial)
	if err != nil {
		return nil, fmt.Errorf("job: the coordinator at %s: %w", addr, err)
	}
	return c, nil
}

// Places are where the job's ranks show themselves to who has the token, by rank.
func Places(ctx context.Context, c coord.Coordinator, token []byte) ([]metrics.Place, error) {
	list, _, err := c.List(ctx, statusPrefix)
	if err != nil {
		return nil, err
	}
	var all []metrics.Place
	for _, kv := range list {
		var card statusCard
		if err := json.Unmarshal(kv.Value, &card); err != nil {
			return nil, fmt.Errorf("job: %s is not understood: %w; run the same psrt everywhere", strings.TrimPrefix(kv.Key, statusPrefix), err)
		}
		all = append(all, card.place(token))
	}
	return all, nil
}
