package pair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// readyTimeout bounds the waiting for GIDs. They come 1 to 2 s after the
// device, more slowly where the machine is emulated and its host is busy.
const readyTimeout = 60 * time.Second

const pollInterval = 20 * time.Millisecond

// Devices lists the RDMA devices with an active port under /sys or a copy of it.
func Devices(sys string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(sys, "class/infiniband"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lab: listing RDMA devices: %w", err)
	}
	var active []string
	for _, e := range entries {
		states, err := filepath.Glob(filepath.Join(sys, "class/infiniband", e.Name(), "ports/*/state"))
		if err != nil {
			return nil, err
		}
		for _, name := range states {
			if state, err := os.ReadFile(name); err == nil && strings.Contains(string(state), "ACTIVE") {
				active = append(active, e.Name())
				break
			}
		}
	}
	return active, nil
}

// HasGID says whether a device's first port has a RoCE v2 GID for an IPv4 address.
func HasGID(sys, device, address string) bool {
	ip := net.ParseIP(address).To4()
	if ip == nil {
		return false
	}
	want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", ip[0], ip[1], ip[2], ip[3])
	port := filepath.Join(sys, "class/infiniband", device, "ports/1")
	gids, err := filepath.Glob(filepath.Join(port, "gids/*"))
	if err != nil {
		return false
	}
	for _, name := range gids {
		gid, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(gid)) != want {
			continue
		}
		kind, err := os.ReadFile(filepath.Join(port, "gid_attrs/types", filepath.Base(name)))
		if err == nil && strings.TrimSpace(string(kind)) == "RoCE v2" {
			return true
		}
	}
	return false
}

func ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		active, err := Devices("/sys")
		if err != nil {
			return err
		}
		have := strings.Join(active, " ")
		if strings.Contains(have, DeviceA) && strings.Contains(have, DeviceB) &&
			HasGID("/sys", DeviceA, AddressA) && HasGID("/sys", DeviceB, AddressB) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lab: %s and %s have no RoCE v2 GID for %s and %s (active: %q): %w",
				DeviceA, DeviceB, AddressA, AddressB, have, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// Traffic is what was counted since the pair was made.
type Traffic struct {
	Device int64 // packets sent, by the RDMA devices' count
	Link   int64 // packets that entered the veth pair at either end
}

// Count reads the counters.
func Count() (Traffic, error) {
	var t Traffic
	for _, device := range []string{DeviceA, DeviceB} {
		n, err := counter("/sys/class/infiniband/" + device + "/ports/1/hw_counters/sent_pkts")
		if err != nil {
			return t, err
		}
		t.Device += n
	}
	for _, link := range []string{LinkA, LinkB} {
		n, err := counter("/sys/class/net/" + link + "/statistics/tx_packets")
		if err != nil {
			return t, err
		}
		t.Link += n
	}
	return t, nil
}

func counter(name string) (int64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("lab: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("lab: %s: %w", name, err)
	}
	return n, nil
}

// crossTimeout bounds the first datagram, which waits for ARP.
const crossTimeout = time.Minute

// Cross sends one datagram from end to end and demands that the link counted it.
func Cross() error {
	before, err := counter("/sys/class/net/" + LinkA + "/statistics/tx_packets")
	if err != nil {
		return err
	}
	to, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(AddressB)})
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer to.Close()
	from, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(AddressA)}, to.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer from.Close()
	if _, err := from.Write([]byte("across")); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if err := to.SetReadDeadline(time.Now().Add(crossTimeout)); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	var got [16]byte
	if _, err := to.Read(got[:]); err != nil {
		return fmt.Errorf("lab: no datagram passes from %s to %s: %w", AddressA, AddressB, err)
	}
	after, err := counter("/sys/class/net/" + LinkA + "/statistics/tx_packets")
	if err != nil {
		return err
	}
	if after <= before {
		return fmt.Errorf("lab: a datagram from %s arrived at %s without crossing %s: the rules for local addresses are not in force", AddressA, AddressB, LinkA)
	}
	return nil
}
