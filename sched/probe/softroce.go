package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// infiniband is where the kernel lists RDMA devices; tests have another.
const infiniband = "/sys/class/infiniband"

// softDevices are the network interfaces under soft-RoCE devices: those named,
// or if all is set and none is named, all.
func softDevices(devices []string, all bool) ([]string, error) {
	if len(devices) > 0 {
		var under []string
		for _, device := range devices {
			name, err := parent(infiniband, device)
			if err != nil {
				return nil, fmt.Errorf("probe: metering RoCE v2 of RDMA device %q, which is none of soft-RoCE; rdma link lists them: %w", device, err)
			}
			under = append(under, name)
		}
		return under, nil
	}
	if !all {
		return nil, nil
	}
	entries, err := os.ReadDir(infiniband)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("probe: listing RDMA devices: %w", err)
	}
	var under []string
	for _, e := range entries {
		if name, err := parent(infiniband, e.Name()); err == nil {
			under = append(under, name)
		}
	}
	if len(under) == 0 {
		return nil, &MissingError{What: "a soft-RoCE device", Needed: roceWants.what, Cause: fs.ErrNotExist,
			Remedy: "a card's own RDMA does not pass the kernel: OpenUSDT and OpenDevices tell of it; rdma link add rxe0 type rxe netdev NAME makes one of soft-RoCE"}
	}
	return under, nil
}

// parent is the interface under a soft-RoCE device; only its driver says so.
func parent(root, device string) (string, error) {
	if device != filepath.Base(device) {
		return "", fs.ErrInvalid
	}
	b, err := os.ReadFile(filepath.Join(root, device, "parent"))
	return strings.TrimSpace(string(b)), err
}
