package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/sched/job"
	"psrt/sched/metrics"
)

// reachFlags say how a running job is reached from a machine that has no part in it.
type reachFlags struct {
	coordinator, tokenFile string
	tlsCA, tlsCert, tlsKey string
}

func (f *reachFlags) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.coordinator, "coordinator", "", "`address` of the job's rank 0, or of its etcd, as the ranks have it: HOST:PORT or https://HOST:PORT")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the job's secret, as the ranks have it")
	fl.StringVar(&f.tlsCA, "tls-ca", "", "`file` with the certificates that etcd's is checked against")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "`file` with this machine's certificate for etcd")
	fl.StringVar(&f.tlsKey, "tls-key", "", "`file` with its key")
}

func (f *reachFlags) token() ([]byte, error) {
	if f.tokenFile == "" {
		return nil, cli.Usagef("--coordinator %s needs --token-file: the file with the job's secret that its ranks have", f.coordinator)
	}
	if f.coordinator != "" { // doctor's --peers need none
		if err := checkCoordinator(f.coordinator); err != nil {
			return nil, err
		}
	}
	b, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return nil, cli.Usagef("--token-file: %w", err)
	}
	if len(b) < 16 {
		return nil, cli.Usagef("--token-file %s has %d bytes, want at least 16", f.tokenFile, len(b))
	}
	return b, nil
}

// reachWithin bounds what is asked of a coordinator.
const reachWithin = 3 * time.Second

// job finds the ranks of a job, now and each time that it is looked at. The addresses of
// the beginning may go while it runs: each look asks by those that the job names then.
func (f *reachFlags) job(ctx context.Context, addr string, token []byte) (target, error) {
	places, named, err := f.places(ctx, addr, token)
	if err != nil {
		return target{}, err
	}
	ways := merged(named, addr)
	attaching, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	shards, err := job.Attach(attaching, ways, token, f.store(ways))
	if err != nil {
		shards = nil // its servers stay what they are
	}
	return target{places: places, shards: shards, again: func(ctx context.Context) []metrics.Place {
		now, named, err := f.places(ctx, ways, token)
		if err != nil {
			return places // those that were: the coordinator may be what hangs
		}
		if places, ways = now, merged(named, addr); shards != nil {
			shards.Follow(ways)
		}
		return places
	}}, nil
}

func (f *reachFlags) store(addr string) job.StoreConfig {
	return job.StoreConfig{Endpoints: job.Endpoints(addr), CA: f.tlsCA, Cert: f.tlsCert, Key: f.tlsKey, User: os.Getenv("PSRT_ETCD_USER"), Password: os.Getenv("PSRT_ETCD_PASSWORD")}
}

// places are where ranks show themselves; named are addresses that the job names as ways
// to its coordinator, "" where it has one that stays.
func (f *reachFlags) places(ctx context.Context, addr string, token []byte) (places []metrics.Place, named string, err error) {
	whole := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, reachWithin, fmt.Errorf("no answer in %v", reachWithin))
	defer cancel()
	defer func() { err = job.Unanswered(whole, addr, token, reachWithin, err) }()
	c, err := job.Reach(ctx, addr, token, f.store(addr))
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	if places, err = job.Places(ctx, c, token); err != nil {
		return nil, "", err
	}
	if len(places) == 0 {
		return nil, "", fmt.Errorf("the job at %s has no rank yet that can be asked: try again", addr)
	}
	if job.Endpoints(addr) == nil {
		named, err = job.WaysIn(ctx, c)
	}
	return places, named, err
}

// merged is a list of addresses out of several, each once.
func merged(lists ...string) string {
	var all []string
	for _, a := range strings.Split(strings.Join(lists, ","), ",") {
		if a != "" && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return strings.Join(all, ",")
}

func plain(addrs []string) []metrics.Place {
	all := make([]metrics.Place, len(addrs))
	for i, a := range addrs {
		all[i].Addr = a
	}
	return all
}
