package discover

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// twoCards: mlx5_0 near node 0 and mlx5_1 near node 1, in one subnet; rxe0 on
// docker0; mlx5_2 is down.
func twoCards(t *testing.T) Input {
	f := newFake(t)
	f.netdev("eth0", 4200)
	f.netdev("eth1", 4200)
	f.port(f.device("mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", 0), 1, active, "Ethernet", roce("10.77.0.1", "eth0", true)...)
	f.port(f.device("mlx5_1", "pci0000:ba/0000:ba:00.0/0000:bb:00.0", 1), 1, active, "Ethernet", roce("10.77.0.3", "eth1", false)...)
	f.port(f.device("mlx5_2", "", -1), 1, "1: DOWN", "Ethernet", roce("10.77.0.5", "eth2", false)...)
	f.port(f.device("rxe0", "", -1), 1, active, "Ethernet", roce("172.17.0.1", "docker0", false)...)
	return Input{
		Host: Host{Devices: f.scan(), Interfaces: []Interface{iface("lo", "127.0.0.1/8"), iface("docker0", "172.17.0.1/16"),
			iface("eth0", "10.77.0.1/24", "fe80::1/64"), iface("eth1", "10.77.0.3/24"), iface("eth2", "10.77.0.5/24")}},
		Peers:    addrs("10.77.0.2"),
		Route:    routeTable([3]string{"10.77.0.2", "10.77.0.1", "eth0"}, [3]string{"192.168.9.9", "10.77.0.1", "eth0"}, [3]string{"172.17.0.1", "172.17.0.1", "lo"}),
		NUMANode: -1,
	}
}

func names(c Choice) string {
	var list []string
	for _, r := range c.Rails {
		list = append(list, r.Device)
	}
	return strings.Join(list, " ")
}

func choose(t *testing.T, in Input) Choice {
	t.Helper()
	c, err := Choose(in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Input)
		want   string
	}{
		{"by route, then subnet; not docker0, not the one that is down", func(*Input) {}, "mlx5_0 mlx5_1"},
		{"memory on node 1", func(in *Input) { in.NUMANode = 1 }, "mlx5_1 mlx5_0"},
		{"memory on node 0", func(in *Input) { in.NUMANode = 0 }, "mlx5_0 mlx5_1"},
		{"by the kernel's distances", func(in *Input) {
			in.NUMANode = 2
			in.NodeDistance = func(_, to int) int { return 31 - 10*to }
		}, "mlx5_1 mlx5_0"},
		{"near a GPU", func(in *Input) { in.PCI = "pci0000:ba/0000:ba:01.0/0000:bd:00.0" }, "mlx5_1 mlx5_0"},
		{"the node before the bus", func(in *Input) { in.NUMANode, in.PCI = 0, "pci0000:ba/0000:ba:01.0" }, "mlx5_0 mlx5_1"},
		{"only by route", func(in *Input) { in.Peers = addrs("192.168.9.9") }, "mlx5_0"},
		{"no route, but the subnet", func(in *Input) { in.Route = routeTable() }, "mlx5_0 mlx5_1"},
		{"a near node does not help who does not reach", func(in *Input) { in.NUMANode = 1; in.Peers = addrs("192.168.9.9") }, "mlx5_0"},
		{"no peer: all that are up", func(in *Input) { in.Peers = nil }, "mlx5_0 mlx5_1 rxe0"},
		{"both hosts have docker0 with one address", func(in *Input) { in.Peers = addrs("10.77.0.2", "172.17.0.1") }, "mlx5_0 mlx5_1"},
		{"the peer is this host", func(in *Input) { in.Peers = addrs("172.17.0.1") }, "rxe0"},
		{"IPv4-mapped peer", func(in *Input) { in.Peers = addrs("::ffff:10.77.0.2") }, "mlx5_0 mlx5_1"},
		{"named", func(in *Input) { in.Overrides.Devices = []Selector{{"rxe0", 0}} }, "rxe0"},
		{"two named, one of which would not do", func(in *Input) { in.Overrides.Devices = []Selector{{"rxe0", 1}, {"mlx5_1", 0}} }, "mlx5_1 rxe0"},
	} {
		in := twoCards(t)
		tc.change(&in)
		if c := choose(t, in); names(c) != tc.want {
			t.Errorf("%s: %s, want %s\n%s", tc.name, names(c), tc.want, c)
		}
	}
}

func TestLineAndGIDs(t *testing.T) {
	in := twoCards(t)
	in.TrafficClass = 104
	c := choose(t, in)
	r := c.Rails[0]
	if r.GIDIndex != 4 || r.GID.Type != RoCEv2 || r.MTUBytes != 4096 || r.Netdev != "eth0" || r.Subnet.String() != "10.77.0.1/24" || r.TrafficClass != 104 {
		t.Errorf("%+v", r)
	}
	if c.Rails[1].GIDIndex != 3 {
		t.Errorf("mlx5_1 has no empty entry, so its GID is 3: %+v", c.Rails[1])
	}
	for _, want := range []string{
		"verbs: mlx5_0 port 1 gid 4 (RoCE v2, 10.77.0.1, mtu 4096, node 0, traffic class 104): active; routes to 10.77.0.2; then mlx5_1 port 1 gid 3",
		"in the subnet of 10.77.0.2, 10.77.0.0/24",
		"rejected mlx5_2 port 1: is DOWN (Disabled): ip link set eth2 up",
		"rejected rxe0 port 1: RoCE v2 172.17.0.1: not known to reach the peer, while mlx5_0 does better",
		"other gids",
	} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("the line lacks %q:\n%s", want, c)
		}
	}
	if strings.Contains(c.String(), "\n") {
		t.Error("more than one line")
	}
	at := slices.IndexFunc(c.Rejected, func(r Rejected) bool { return r.Device == "mlx5_0" && r.GIDIndex == 1 })
	if at < 0 || !strings.Contains(c.Rejected[at].Reason, "link-local only; gid 4 is preferred") {
		t.Errorf("%v", c.Rejected)
	}
}

func TestUnfit(t *testing.T) {
	gid := GID{Index: 0, Type: RoCEv2, Raw: netip.MustParseAddr("::ffff:10.0.0.1").As16(), Netdev: "eth0"}
	port := Port{Number: 1, State: "ACTIVE", LinkLayer: Ethernet, GIDs: []GID{gid}}
	good := Device{Name: "d", NodeType: "CA", Char: "uverbs0", NUMANode: -1, Ports: []Port{port}}
	for _, tc := range []struct {
		why   string
		spoil func(d *Device)
	}{
		{"iWARP", func(d *Device) { d.NodeType = "RNIC" }},
		{"modprobe ib_uverbs", func(d *Device) { d.Char = "" }},
		{"--device=/dev/infiniband/uverbs0", func(d *Device) { d.CharMissing = true }},
		{"disk on fire", func(d *Device) { d.Problem = errors.New("disk on fire") }},
		{"is INIT", func(d *Device) { d.Ports[0].State = "INIT" }},
		{"no GID", func(d *Device) { d.Ports[0].GIDs = nil }},
		{"not in this network namespace", func(d *Device) { d.Ports[0].GIDs[0].Netdev = "eth00" }},
		{"subnet manager", func(d *Device) { d.Ports[0].LinkLayer = InfiniBand }},
		{"link layer", func(d *Device) { d.Ports[0].LinkLayer = "" }},
	} {
		d := good
		d.Ports = []Port{port}
		d.Ports[0].GIDs = []GID{gid}
		in := Input{Host: Host{Devices: []Device{d}, Interfaces: []Interface{iface("eth0", "10.0.0.1/24")}}, NUMANode: -1}
		choose(t, in)
		tc.spoil(&in.Host.Devices[0])
		_, err := Choose(in)
		var none *NoRailError
		if !errors.As(err, &none) || !strings.Contains(err.Error(), tc.why) && tc.why != "iWARP" || tc.why == "iWARP" && !strings.Contains(err.Error(), "RNIC") {
			t.Errorf("%s: %v", tc.why, err)
		}
	}
}

func TestInfiniBand(t *testing.T) {
	f := newFake(t)
	p := f.port(f.device("mlx5_0", "pci0000:3a/0000:3b:00.0", 0), 1, active, "InfiniBand",
		[3]string{"fe80:0000:0000:0000:0e42:a103:0065:1234", v1, ""}, [3]string{"fec0:0000:0000:0000:0e42:a103:0065:1234", v1, ""})
	f.write(p+"/lid", "0x4")
	c := choose(t, Input{Host: Host{Devices: f.scan()}, Peers: addrs("10.0.0.2"), Route: routeTable(), NUMANode: 0})
	if r := c.Rails[0]; r.GIDIndex != 0 || r.LID != 4 || r.GID.Type != IB || !strings.Contains(r.String(), "InfiniBand, LID 4") {
		t.Errorf("%+v", r)
	}
}

// TestPreference: each list is from best to worst; taking the best away makes
// the next the choice.
func TestPreference(t *testing.T) {
	all := []struct {
		text string
		kind GIDType
	}{
		{"::ffff:10.0.0.1", RoCEv2},   // routes
		{"fd00::1", RoCEv2},           // routes
		{"::ffff:10.9.0.1", RoCEv2},   // subnet
		{"::ffff:172.17.0.1", RoCEv2}, // other
		{"::ffff:10.0.0.1", RoCEv1},   // routes, v1
		{"::ffff:10.9.0.1", RoCEv1},   // subnet, v1
		{"::ffff:172.17.0.1", RoCEv1}, // other, v1
		{"fe80::1", RoCEv2},           // link-local
		{"fe80::1", RoCEv1},           // link-local, v1
	}
	var gids []GID
	for i, g := range all {
		gids = append(gids, GID{Index: len(all) - i, Type: g.kind, Raw: netip.MustParseAddr(g.text).As16(), Netdev: "eth0"})
	}
	in := Input{NUMANode: -1, Peers: addrs("10.0.0.2", "10.9.0.2", "fd00::2"),
		Route: routeTable([3]string{"10.0.0.2", "10.0.0.1", "eth0"}, [3]string{"fd00::2", "fd00::1", "eth0"}),
		Host:  Host{Interfaces: []Interface{iface("eth0", "10.0.0.1/32", "10.9.0.1/16", "172.17.0.1/16", "fd00::1/64", "fe80::1/64")}}}
	for len(gids) > 0 {
		in.Host.Devices = []Device{{Name: "d", Char: "uverbs0", Ports: []Port{{Number: 1, State: "ACTIVE", LinkLayer: Ethernet, GIDs: gids}}}}
		if c := choose(t, in); c.Rails[0].GIDIndex != gids[0].Index {
			t.Errorf("took %v, want %s %s", c, gids[0].Type, gids[0].Addr())
		}
		gids = gids[1:]
	}
}
