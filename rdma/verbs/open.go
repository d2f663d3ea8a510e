package verbs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// Selection says which devices to open.
type Selection struct {
	// Devices by exact name; empty: all that have an active port.
	Devices []string
	// Config of each; its Device is not looked at.
	Config Config
}

// ErrNoDevice says that the kernel knows no RDMA device.
var ErrNoDevice = errors.New("this host has no RDMA device")

// Open opens one domain per device. An error is why there is none.
func Open(s Selection) ([]*Domain, error) {
	// Without a device the library need not be there, either.
	if there, err := os.ReadDir("/sys/class/infiniband"); err != nil || len(there) == 0 {
		return nil, ErrNoDevice
	}
	names := s.Devices
	if len(names) == 0 {
		var err error
		if names, err = ibv.Devices(); err != nil {
			return nil, err
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the kernel has RDMA devices, libibverbs finds none: install ibverbs-providers: %w", rdma.ErrNotSupported)
	}
	var list []*Domain
	var errs []error
	for _, name := range names {
		c := s.Config
		c.Device = strings.TrimSpace(name)
		d, err := New(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, d)
	}
	if len(list) == 0 || len(s.Devices) > 0 && len(errs) > 0 {
		for _, d := range list {
			_ = d.Close()
		}
		return nil, errors.Join(errs...)
	}
	return list, nil
}

// nodeOf is the NUMA node a device hangs on, -1 where the kernel does not say.
func nodeOf(device string) int {
	b, err := os.ReadFile(filepath.Join("/sys/class/infiniband", device, "device/numa_node"))
	if err != nil {
		return -1 // a device without a bus, as soft-RoCE's
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}
