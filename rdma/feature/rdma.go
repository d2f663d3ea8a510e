package feature

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// RDMADevice asks for a device with a port that passes data. The lab "rxe"
// promises one.
var RDMADevice = Test{
	Name:        "RDMA device",
	Requirement: "an RDMA device with an active port",
	Remedy:      "make lab CMD='…' runs a command in a virtual machine that has two; rdma link add rxe0 type rxe netdev eth0 makes one where the kernel has rdma_rxe",
	Lab:         "rxe",
	Probe:       probeRDMADevice,
}

func probeRDMADevice(r Root) error {
	states, err := filepath.Glob(r.path("sys/class/infiniband/*/ports/*/state"))
	if err != nil {
		return fmt.Errorf("feature: listing RDMA ports: %w", err)
	}
	for _, f := range states {
		b, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("feature: reading a port's state: %w", err)
		}
		if strings.Contains(string(b), "ACTIVE") {
			return nil
		}
	}
	return missing("%d ports, none active", len(states))
}
