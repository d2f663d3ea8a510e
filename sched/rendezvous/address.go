package rendezvous

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Candidate is an address under which other hosts may reach this one.
type Candidate struct {
	Interface string       `json:"interface"`
	Prefix    netip.Prefix `json:"prefix"` // the address with its network
	// RDMA: the interface belongs to an RDMA device. Speed is in Mbit/s, 0 unknown.
	RDMA  bool `json:"rdma,omitempty"`
	Speed int  `json:"speed,omitempty"`
}

// maxCandidates of a rank; the best are kept.
const maxCandidates = 16

// address is one of an interface, as the kernel lists them.
type address struct {
	name     string
	up       bool
	loopback bool
	prefix   netip.Prefix
}

// addresses lists this machine's addresses.
func addresses() ([]address, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("rendezvous: listing network interfaces: %w", err)
	}
	var all []address
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it went away meanwhile
		}
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				continue
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits())
			all = append(all, address{name: i.Name, up: i.Flags&net.FlagUp != 0, loopback: i.Flags&net.FlagLoopback != 0, prefix: p})
		}
	}
	return all, nil
}

// Candidates are the addresses of this host that may be offered to others, the
// most promising first: never loopback, link-local ones, or those of the private
// networks of containers and virtual machines. only, an interface's name or a
// network such as 10.0.0.0/8, leaves the others out; "" is any.
func Candidates(only string) ([]Candidate, error) {
	all, err := addresses()
	if err != nil {
		return nil, err
	}
	return choose(all, only, "/sys")
}

// choose is Candidates with the facts given.
func choose(all []address, only, sysfs string) ([]Candidate, error) {
	var within netip.Prefix
	if only != "" {
		within, _ = netip.ParsePrefix(only) // else it is a name
	}
	var list []Candidate
	var left []string
	for _, a := range all {
		why := ""
		switch {
		case only != "" && !within.IsValid() && a.name != only, within.IsValid() && !within.Contains(a.prefix.Addr()):
			why = "is not of " + only
		case a.loopback || a.prefix.Addr().IsLoopback():
			why = "is loopback"
		case !a.up:
			why = "is down"
		case a.prefix.Addr().IsLinkLocalUnicast() || !a.prefix.Addr().IsGlobalUnicast():
			why = "is link-local"
		case only == "":
			why = private(a.name, sysfs)
		}
		if why != "" {
			left = append(left, fmt.Sprintf("%s of %s %s", a.prefix.Addr(), a.name, why))
			continue
		}
		list = append(list, Candidate{Interface: a.name, Prefix: a.prefix, RDMA: rdmaOf(a.name, sysfs), Speed: speedOf(a.name, sysfs)})
	}
	if len(list) == 0 && only != "" {
		return nil, &InputError{fmt.Errorf("rendezvous: --interface %s: this host has no such address (%s)", only, strings.Join(left, "; "))}
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		switch {
		case a.RDMA != b.RDMA:
			return order(a.RDMA)
		case a.Speed != b.Speed:
			return b.Speed - a.Speed
		case a.Prefix.Addr().Is4() != b.Prefix.Addr().Is4():
			return order(a.Prefix.Addr().Is4())
		}
		return 0
	})
	return list[:min(len(list), maxCandidates)], nil
}

func order(first bool) int {
	if first {
		return -1
	}
	return 1
}

// privateNames begin the names of interfaces that engines make for their own
// guests on one host.
var privateNames = []string{"docker", "br-", "virbr", "lxcbr", "lxdbr", "cni", "podman", "flannel", "cali", "kube-", "vmnet", "vboxnet"}

// private says why an interface's address means nothing to other hosts, "" where
// it may. A bridge without a real card in it leads nowhere else.
func private(name, sysfs string) string {
	for _, p := range privateNames {
		if strings.HasPrefix(name, p) {
			return "is of containers or virtual machines on this host"
		}
	}
	dir := filepath.Join(sysfs, "class/net", name)
	if _, err := os.Stat(filepath.Join(dir, "bridge")); err != nil {
		return ""
	}
	ports, _ := filepath.Glob(filepath.Join(dir, "brif", "*"))
	for _, p := range ports {
		if _, err := os.Stat(filepath.Join(sysfs, "class/net", filepath.Base(p), "device")); err == nil {
			return ""
		}
	}
	return "is of a bridge without a network card"
}

func rdmaOf(name, sysfs string) bool {
	found, _ := filepath.Glob(filepath.Join(sysfs, "class/net", name, "device/infiniband/*"))
	return len(found) > 0
}

func speedOf(name, sysfs string) int {
	text, err := os.ReadFile(filepath.Join(sysfs, "class/net", name, "speed"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return 0
	}
	return n
}
