package main

import (
	"net"
	"strings"

	"psrt/cmd/internal/cli"
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
	if strings.HasPrefix(addr, "unix:") {
		return nil
	}
	_, port, err := net.SplitHostPort(strings.TrimPrefix(addr, "tcp:"))
	if err == nil && port != "" {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return cli.Usagef("--%s %s: want HOST:PORT, such as node0:7000, with a port from 1 to 65535", flag, addr)
	}
	return nil
}
