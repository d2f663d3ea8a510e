package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"psrt/cmd/internal/cli"
	"psrt/sched/metrics"
)

// jobMetrics listens for a job whose ranks this process starts, before it
// starts any. begin is for when it is known where the ranks will be; the
// endpoint, nil without --metrics, is to be closed.
func (f *trainFlags) jobMetrics(note func(string)) (e *metrics.Endpoint, begin func(sockets []string), err error) {
	if f.metrics == "" {
		return nil, nil, nil
	}
	if e, err = f.listenMetrics(f.metrics, note); err != nil {
		return nil, nil, err
	}
	return e, func(sockets []string) {
		own := metrics.NewRank()
		own.Name("launcher")
		e.Serve(metrics.NewJob(own, sockets))
	}, nil
}

// rankMetrics shows one rank: on the socket that its launcher has named, or
// where ranks are started by hand at a port of its own.
func (f *trainFlags) rankMetrics(launched bool, note func(string)) (*metrics.Rank, *metrics.Endpoint, error) {
	if f.metrics == "" {
		return nil, nil, nil
	}
	addr := f.metrics
	if !launched {
		var err error
		if addr, err = portOfRank(addr, f.rank); err != nil {
			return nil, nil, err
		}
	} else {
		note = func(string) {}
	}
	e, err := f.listenMetrics(addr, note)
	if err != nil {
		return nil, nil, err
	}
	r := metrics.NewRank()
	e.Serve(r.Gatherer())
	return r, e, nil
}

func (f *trainFlags) listenMetrics(addr string, note func(string)) (*metrics.Endpoint, error) {
	e, err := metrics.Listen(addr)
	if err != nil {
		return nil, cli.Usagef("--metrics: %w", err)
	}
	note(fmt.Sprintf("metrics at http://%s/metrics", e.Addr()))
	return e, nil
}

// portOfRank gives each rank a port of its own, so that all may have the same
// flags, on one host too.
func portOfRank(addr string, rank int) (string, error) {
	if strings.HasPrefix(addr, "unix:") {
		return addr + "-" + strconv.Itoa(rank), nil
	}
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", cli.Usagef("--metrics %s: %w; want HOST:PORT, such as :9090", addr, err)
	}
	port, err := strconv.Atoi(text)
	switch {
	case err != nil || port < 0 || port > 65535:
		return "", cli.Usagef("--metrics %s: the port must be a number from 0 to 65535", addr)
	case port == 0:
		return addr, nil
	case port+rank > 65535:
		return "", cli.Usagef("--metrics %s: rank %d would listen on port %d, which there is not; give a lower one", addr, rank, port+rank)
	}
	return net.JoinHostPort(host, strconv.Itoa(port+rank)), nil
}
