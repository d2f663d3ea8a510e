package main

import (
	"strings"

	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
	"psrt/sched/job"
)

// checkCoordinator refuses a --coordinator, or one of several with commas, that can be
// no address. Of an etcd's the store knows more.
func checkCoordinator(addr string) error {
	if len(job.Endpoints(addr)) > 0 {
		return nil
	}
	for a := range strings.SplitSeq(addr, ",") {
		if err := checkAddress("coordinator", a); err != nil {
			return err
		}
	}
	return nil
}

// checkAddress refuses what is neither HOST:PORT nor a unix socket.
func checkAddress(flag, addr string) error {
	if err := dial.CheckCoordinator(addr); err != nil {
		return cli.Usagef("--%s: %w", flag, err)
	}
	return nil
}

// checkAddresses is checkAddress for several with commas.
func checkAddresses(flag, addrs string) error {
	for _, a := range paths(addrs) {
		if err := checkAddress(flag, a); err != nil {
			return err
		}
	}
	return nil
}

// checkListen refuses a --listen at which nothing can listen; "" is the command's default.
func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	if err := dial.CheckListen(addr); err != nil {
		return cli.Usagef("--listen: %w", err)
	}
	return nil
}
