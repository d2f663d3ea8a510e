package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"psrt/bench/micro"
	"psrt/rdma"
	"psrt/rdma/quic"
	"psrt/rdma/shm"
	"psrt/rdma/tcp"
	"psrt/rdma/verbs"
)

// peerName is the hidden command that is the other process.
const peerName = "peer"

var transports = []string{"shm", "tcp", "tls", "quic", "verbs"}

// openDomain opens one of transports for a peer on this machine; verbs with
// its device and what else is needed, as verbsFlags.transport writes it.
func openDomain(transport string) (rdma.Domain, error) {
	if spec, ok := strings.CutPrefix(transport, "verbs:"); ok {
		var cfg verbs.Config
		if err := json.Unmarshal([]byte(spec), &cfg); err != nil {
			return nil, err
		}
		// One thread runs Go, as one runs perftest: a second would look for work
		// on the core that a software device needs.
		runtime.GOMAXPROCS(1)
		return opened(verbs.New(cfg))
	}
	switch transport {
	case "shm":
		return opened(shm.New(shm.Config{Purpose: "psbench"}))
	case "tcp":
		return opened(tcp.New(tcp.Config{Listen: "127.0.0.1:0"}))
	case "tls":
		return opened(tcp.New(tcp.Config{Listen: "127.0.0.1:0", Cover: tcp.CoverAll}))
	case "quic":
		c, err := quic.New()
		if err != nil {
			return nil, err
		}
		return opened(tcp.New(tcp.Config{Carrier: c, Listen: "127.0.0.1:0"}))
	}
	return nil, fmt.Errorf("transport %q is not one of %v", transport, transports)
}

// opened makes an interface without a value where there is no domain.
func opened[D rdma.Domain](d D, err error) (rdma.Domain, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

func newPeer() *cobra.Command {
	return &cobra.Command{
		Use:    peerName,
		Short:  "The other process of a benchmark; started by psbench itself",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			return micro.ServePeer(os.Stdin, os.Stdout, openDomain)
		},
	}
}
