package discover

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// fake is a host's sys and dev under construction.
type fake struct {
	t    *testing.T
	root string
	next int // of uverbs
}

func newFake(t *testing.T) *fake { return &fake{t: t, root: t.TempDir()} }

func (f *fake) write(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) link(name, target string) {
	f.t.Helper()
	for _, dir := range []string{filepath.Join(f.root, filepath.Dir(name)), filepath.Join(f.root, target)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(f.root, target), filepath.Join(f.root, name)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) netdev(name string, mtu int) { f.write("sys/class/net/"+name+"/mtu", fmt.Sprint(mtu)) }

// device adds one with a character device; pci "" is a soft one.
func (f *fake) device(name, pci string, node int) string {
	dir := "sys/class/infiniband/" + name
	f.write(dir+"/node_type", "1: CA")
	f.write(dir+"/node_guid", "0c42:a103:0065:1234")
	if pci != "" {
		f.write("sys/devices/"+pci+"/numa_node", fmt.Sprint(node))
		f.link(dir+"/device", "sys/devices/"+pci)
	}
	char := fmt.Sprintf("uverbs%d", f.next)
	f.next++
	f.write("sys/class/infiniband_verbs/"+char+"/ibdev", name)
	f.write("dev/infiniband/"+char, "")
	return dir
}

// port adds one; gids are {GID, type, netdev}, and "" an empty entry.
func (f *fake) port(dir string, number int, state, link string, gids ...[3]string) string {
	p := fmt.Sprintf("%s/ports/%d", dir, number)
	f.write(p+"/state", state)
	f.write(p+"/phys_state", map[bool]string{true: "5: LinkUp", false: "3: Disabled"}[state == "4: ACTIVE"])
	f.write(p+"/link_layer", link)
	f.write(p+"/rate", "100 Gb/sec (4X EDR)")
	if err := os.MkdirAll(filepath.Join(f.root, p, "gids"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	for i, g := range gids {
		if g[0] == "" {
			f.write(fmt.Sprintf("%s/gids/%d", p, i), "0000:0000:0000:0000:0000:0000:0000:0000")
			continue
		}
		f.write(fmt.Sprintf("%s/gids/%d", p, i), g[0])
		f.write(fmt.Sprintf("%s/gid_attrs/types/%d", p, i), g[1])
		if g[2] != "" {
			f.write(fmt.Sprintf("%s/gid_attrs/ndevs/%d", p, i), g[2])
		}
	}
	return p
}

func (f *fake) scan() []Device {
	f.t.Helper()
	d, err := Scan(f.root)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

const (
	active = "4: ACTIVE"
	v1     = "IB/RoCE v1"
	v2     = "RoCE v2"
)

// mapped writes an IPv4 address as sysfs writes a GID.
func mapped(v4 string) string {
	b := netip.MustParseAddr(v4).As4()
	return fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
}

const linkLocalGID = "fe80:0000:0000:0000:0e42:a1ff:fe65:1234"

// roce gives the table that drivers build: link-local and IPv4, each as both
// versions, and an empty entry before them if asked.
func roce(v4, netdev string, empty bool) [][3]string {
	list := [][3]string{{linkLocalGID, v1, netdev}, {linkLocalGID, v2, netdev}, {mapped(v4), v1, netdev}, {mapped(v4), v2, netdev}}
	if empty {
		list = append([][3]string{{}}, list...)
	}
	return list
}

func iface(name string, addrs ...string) Interface {
	i := Interface{Name: name, MTU: 1500, Up: true}
	for _, a := range addrs {
		i.Addrs = append(i.Addrs, netip.MustParsePrefix(a))
	}
	return i
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// routeTable is a Router of peer, source, interface.
func routeTable(rows ...[3]string) Router {
	return func(peer netip.Addr) (netip.Addr, string, error) {
		for _, r := range rows {
			if peer.String() == r[0] {
				return netip.MustParseAddr(r[1]), r[2], nil
			}
		}
		return netip.Addr{}, "", fmt.Errorf("no route to %s", peer)
	}
}
