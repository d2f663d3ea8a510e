package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DevicesConfig says which RDMA devices' counters are read.
type DevicesConfig struct {
	Devices []string // by name; none: all there are when it is opened
}

// Devices is a Meter of what RDMA devices themselves count, per port: all that
// passes it, whoever it is for. It needs no privilege. One source a port, with
// Interface DEVICE/PORT; bytes are those of port_rcv_data, headers included,
// and messages are packets. Soft-RoCE counts packets only.
type Devices struct {
	root  string
	ports []Port
}

// Port is a device's port with its counters.
type Port struct {
	Device string
	Number int
	// Values by the kernel's names, which are the driver's: counters/port_rcv_data
	// (in units of 4 bytes), hw_counters/out_of_sequence and the like.
	Values map[string]uint64
}

// OpenDevices finds the ports.
func OpenDevices(cfg DevicesConfig) (*Devices, error) { return openDevices(infiniband, cfg) }

func openDevices(root string, cfg DevicesConfig) (*Devices, error) {
	const what = "reading the counters of RDMA devices"
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("probe: %s: %w", what, err)
	}
	var present []string
	for _, e := range entries {
		present = append(present, e.Name())
	}
	wanted := cfg.Devices
	if len(wanted) == 0 {
		wanted = present
	}
	if len(wanted) == 0 {
		return nil, &MissingError{What: "an RDMA device", Needed: what, Cause: fs.ErrNotExist, Remedy: "rdma link lists them; TCP is metered by OpenTCP"}
	}
	d := &Devices{root: root}
	for _, device := range wanted {
		if !slices.Contains(present, device) {
			return nil, fmt.Errorf("probe: %s: there is no device %q, but %s", what, device, strings.Join(present, ", "))
		}
		numbers, err := os.ReadDir(filepath.Join(root, device, "ports"))
		if err != nil {
			return nil, fmt.Errorf("probe: %s: %w", what, err)
		}
		for _, n := range numbers {
			if number, err := strconv.Atoi(n.Name()); err == nil {
				d.ports = append(d.ports, Port{Device: device, Number: number})
			}
		}
	}
	return d, nil
}

// Ports reads all counters. A device that is gone has none.
func (d *Devices) Ports() []Port {
	all := slices.Clone(d.ports)
	for i := range all {
		p := &all[i]
		p.Values = map[string]uint64{}
		for _, folder := range []string{"counters", "hw_counters"} {
			maps.Copy(p.Values, d.values(p, folder))
		}
	}
	return all
}

// values reads a folder. What a driver lists and does not have reads as an
// error or as a text.
func (d *Devices) values(p *Port, folder string) map[string]uint64 {
	path := filepath.Join(d.root, p.Device, "ports", strconv.Itoa(p.Number), folder)
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	values := map[string]uint64{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(path, e.Name()))
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64); err == nil && e.Name() != "lifespan" {
			values[folder+"/"+e.Name()] = n
		}
	}
	return values
}

// Read makes a Sample of each port that counts what it receives.
func (d *Devices) Read(out *Reading) error {
	out.reset()
	for _, p := range d.Ports() {
		words, counts := p.Values["counters/port_rcv_data"]
		packets, also := p.Values["counters/port_rcv_packets"]
		if !also {
			packets, also = p.Values["hw_counters/rcvd_pkts"]
		}
		if counts || also {
			out.Samples = append(out.Samples, Sample{Source{Interface: fmt.Sprintf("%s/%d", p.Device, p.Number)}, Count{Bytes: 4 * words, Messages: packets}})
		}
	}
	return nil
}

// Close has nothing to close.
func (*Devices) Close() error { return nil }
