package pick

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/Mellanox/rdmamap"
)

// Interface gives the device of a network interface of this machine that is
// not found by its GIDs: IPoIB interfaces are matched by their hardware
// address. "" where there is none.
func Interface(name string) string {
	d, err := rdmamap.GetRdmaDeviceForNetdevice(name)
	if err != nil || !exists(d) {
		return ""
	}
	return d
}

// exists guards against a match by part of a name.
func exists(device string) bool {
	if device == "" {
		return false
	}
	_, err := os.Stat(filepath.Join("/", class, device))
	return err == nil
}

// Reachable says why a container cannot open a device that it sees: the device
// file is missing. nil where it is there.
func Reachable(device string) error {
	for _, file := range rdmamap.GetRdmaCharDevices(device) {
		base := filepath.Base(file)
		if !strings.HasPrefix(base, "uverbs") || text("/sys/class/infiniband_verbs/"+base, "ibdev") != device {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("pick: %s is here, but not its device file %s: start the container with --device=%s", device, file, file)
		}
		return nil
	}
	return fmt.Errorf("pick: %s has no user-level interface: load the kernel module ib_uverbs", device)
}
