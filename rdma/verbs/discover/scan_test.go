package discover

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	f := newFake(t)
	f.netdev("eth0", 9000)
	f.netdev("v0", 4200)
	dir := f.device("mlx5_0", "pci0000:3a/0000:3a:00.0/0000:3b:00.0", 1)
	p := f.port(dir, 1, active, "Ethernet", roce("10.0.0.1", "eth0", true)...)
	f.write(p+"/lid", "0x0")
	f.port(dir, 2, "1: DOWN", "Ethernet")
	ib := f.port(f.device("mlx5_1", "pci0000:ba/0000:ba:00.0/0000:bb:00.0", -1), 1, active, "InfiniBand",
		[3]string{linkLocalGID, v1, ""})
	f.write(ib+"/lid", "0x1a")
	rxe := f.device("rxe0", "", -1)
	f.write(rxe+"/parent", "v0")
	f.port(rxe, 1, active, "Ethernet", [3]string{linkLocalGID, v2, "v0"}, [3]string{mapped("10.77.0.1"), v2, "v0"})

	got := f.scan()
	if len(got) != 3 {
		t.Fatalf("%d devices: %+v", len(got), got)
	}
	a, b, c := got[0], got[1], got[2]
	if a.Name != "mlx5_0" || a.NodeType != "CA" || a.NodeGUID != "0c42:a103:0065:1234" || a.NUMANode != 1 || a.Char != "uverbs0" || a.CharMissing ||
		a.PCI != "pci0000:3a/0000:3a:00.0/0000:3b:00.0" || a.Problem != nil || len(a.Ports) != 2 {
		t.Errorf("%+v", a)
	}
	one := a.Ports[0]
	if one.State != "ACTIVE" || one.PhysState != "LinkUp" || one.LinkLayer != Ethernet || one.RateGbps != 100 || one.MTUBytes != 4096 {
		t.Errorf("%+v", one)
	}
	if len(one.GIDs) != 4 || one.GIDs[0].Index != 1 || one.GIDs[3].Type != RoCEv2 || one.GIDs[3].Addr().String() != "10.0.0.1" ||
		one.GIDs[3].Netdev != "eth0" || one.GIDs[2].Type != RoCEv1 {
		t.Errorf("the empty entry must be left out, the others kept: %+v", one.GIDs)
	}
	if a.Ports[1].State != "DOWN" || len(a.Ports[1].GIDs) != 0 {
		t.Errorf("%+v", a.Ports[1])
	}
	if b.NUMANode != -1 || b.Ports[0].LID != 0x1a || b.Ports[0].GIDs[0].Type != IB || b.Ports[0].MTUBytes != 0 {
		t.Errorf("%+v", b)
	}
	if c.Parent != "v0" || c.NUMANode != -1 || c.PCI != "" || c.Ports[0].MTUBytes != 4096 {
		t.Errorf("%+v", c)
	}
}

// TestSoftDeviceIsWhereItsInterfaceIs: rxe over a real card has its place.
func TestSoftDeviceIsWhereItsInterfaceIs(t *testing.T) {
	f := newFake(t)
	f.write("sys/devices/pci0000:3a/0000:3b:00.0/numa_node", "1")
	f.link("sys/class/net/eth0/device", "sys/devices/pci0000:3a/0000:3b:00.0")
	rxe := f.device("rxe0", "", -1)
	f.write(rxe+"/parent", "eth0")
	f.port(rxe, 1, active, "Ethernet")
	if d := f.scan()[0]; d.NUMANode != 1 || d.PCI != "pci0000:3a/0000:3b:00.0" {
		t.Errorf("%+v", d)
	}
}

func TestScanOfDamagedTrees(t *testing.T) {
	if _, err := Scan(t.TempDir()); !errors.Is(err, ErrNoRDMA) || !strings.Contains(err.Error(), "rdma link add") {
		t.Errorf("no devices: %v", err)
	}
	for name, spoil := range map[string]func(f *fake, dir string){
		"no ports":    func(f *fake, dir string) {},
		"port name":   func(f *fake, dir string) { f.port(dir, 0, active, "Ethernet") },
		"not a GID":   func(f *fake, dir string) { f.port(dir, 1, active, "Ethernet", [3]string{"10.0.0.1", v2, ""}) },
		"GID index":   func(f *fake, dir string) { f.write(f.port(dir, 1, active, "Ethernet")+"/gids/x", "") },
		"no state":    func(f *fake, dir string) { f.write(dir+"/ports/1/link_layer", "Ethernet") },
		"state a dir": func(f *fake, dir string) { f.write(dir+"/ports/1/state/x", "") },
	} {
		f := newFake(t)
		spoil(f, f.device("bad", "", -1))
		f.port(f.device("good", "", -1), 1, active, "Ethernet", roce("10.0.0.1", "eth0", false)...)
		got := f.scan()
		if len(got) != 2 || got[0].Problem == nil || got[1].Problem != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNetdevNamesCannotLeadElsewhere(t *testing.T) {
	f := newFake(t)
	f.write("sys/class/secret/mtu", "9000")
	dir := f.device("rxe0", "", -1)
	f.port(dir, 1, active, "Ethernet", [3]string{mapped("10.0.0.1"), v2, "../secret"})
	if p := f.scan()[0].Ports[0]; p.GIDs[0].Netdev != "" || p.MTUBytes != 0 {
		t.Errorf("%+v", p)
	}
}

// TestExactNames: neither eth1 and eth10 nor mlx5_1 and mlx5_10 are mixed up,
// in either direction.
func TestExactNames(t *testing.T) {
	f := newFake(t)
	for _, n := range []int{1, 10} {
		dir := f.device(fmt.Sprintf("mlx5_%d", n), "", -1)
		f.port(dir, 1, active, "Ethernet", roce(fmt.Sprintf("10.0.0.%d", n), fmt.Sprintf("eth%d", n), false)...)
	}
	rxe := f.device("rxe1", "", -1)
	f.write(rxe+"/parent", "eth100")
	f.port(rxe, 1, active, "Ethernet")
	h := Host{Devices: f.scan()}
	for netdev, want := range map[string][]string{"eth1": {"mlx5_1"}, "eth10": {"mlx5_10"}, "eth100": {"rxe1"}, "eth": nil, "": nil} {
		if got := h.DevicesOf(netdev); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", netdev, got, want)
		}
	}
	// The character devices were told apart as well.
	if err := os.Remove(f.root + "/dev/infiniband/" + h.Devices[1].Char); err != nil {
		t.Fatal(err)
	}
	got := f.scan()
	if got[0].CharMissing || !got[1].CharMissing {
		t.Errorf("want only %s missing: %+v", got[1].Name, got)
	}
}

func TestCounters(t *testing.T) {
	f := newFake(t)
	p := f.port(f.device("rxe0", "", -1), 1, active, "Ethernet")
	f.write(p+"/hw_counters/sent_pkts", "12")
	f.write(p+"/hw_counters/lifespan", "ten")
	f.write(p+"/counters/port_rcv_data", "18446744073709551615")
	got, err := Counters(f.root, "rxe0", 1)
	want := map[string]uint64{"sent_pkts": 12, "port_rcv_data": 1<<64 - 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, name := range []string{"rxe1", "../rxe0", ".."} {
		if _, err := Counters(f.root, name, 1); err == nil {
			t.Errorf("%q has counters", name)
		}
	}
}

func TestMTU(t *testing.T) {
	for mtu, want := range map[int]int{9000: 4096, 4200: 4096, 4192: 4096, 4191: 2048, 1500: 1024, 300: 0, 352: 256, 0: 0} {
		if got := RoCEMTU(mtu); got != want {
			t.Errorf("interface of %d: %d, want %d", mtu, got, want)
		}
	}
	for code, want := range []int{0, 256, 512, 1024, 2048, 4096, 0} {
		if got := MTUBytes(uint32(code)); got != want {
			t.Errorf("code %d: %d, want %d", code, got, want)
		}
	}
}

func TestPCIDistance(t *testing.T) {
	const gpu = "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0"
	for other, want := range map[string]int{
		gpu: 0,
		"pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.1": 0,
		"pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0": 4,
		"pci0000:3a/0000:3a:02.0/0000:4b:00.0":                           6,
		"pci0000:ba/0000:ba:00.0/0000:bb:00.0":                           farPCI,
		"":                                                               farPCI,
	} {
		if got, back := PCIDistance(gpu, other), PCIDistance(other, gpu); got != want || back != want {
			t.Errorf("%s: %d and back %d, want %d", other, got, back, want)
		}
	}
}

func FuzzParseGID(f *testing.F) {
	f.Add(mapped("10.0.0.1"))
	f.Add(linkLocalGID)
	f.Add("fe80::1")
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := parseGID(text)
		if err != nil {
			return
		}
		var back []string
		for i := 0; i < 16; i += 2 {
			back = append(back, fmt.Sprintf("%02x%02x", raw[i], raw[i+1]))
		}
		if strings.Join(back, ":") != strings.ToLower(text) {
			t.Errorf("%q became %v", text, back)
		}
	})
}
