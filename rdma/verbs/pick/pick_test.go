package pick

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree writes a machine's sysfs.
type tree struct {
	t    *testing.T
	root string
}

func (f tree) file(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f tree) device(name string, node int, pci string, ports map[int]string, ndevs ...string) {
	f.t.Helper()
	bus := "sys/devices/" + pci
	f.file(bus+"/numa_node", fmt.Sprint(node))
	if err := os.MkdirAll(filepath.Join(f.root, class, name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(f.root, bus), filepath.Join(f.root, class, name, "device")); err != nil {
		f.t.Fatal(err)
	}
	for p, state := range ports {
		at := fmt.Sprintf("%s/%s/ports/%d/", class, name, p)
		f.file(at+"state", state)
		f.file(at+"link_layer", "Ethernet")
		f.file(at+"rate", "100 Gb/sec (4X EDR)")
		for i, n := range ndevs {
			f.file(fmt.Sprintf("%sgid_attrs/ndevs/%d", at, i), n)
		}
	}
}

const (
	up   = "4: ACTIVE"
	down = "1: DOWN"
)

// machine has two sockets, devices on both, one of them down, one without a
// known node.
func machine(t *testing.T) string {
	f := tree{t, t.TempDir()}
	f.device("mlx5_0", 0, "pci0000:00/0000:00:01.0/0000:01:00.0", map[int]string{1: up}, "eth0", "eth0")
	f.device("mlx5_1", 1, "pci0000:80/0000:80:01.0/0000:81:00.0", map[int]string{1: down, 2: up}, "eth1")
	f.device("mlx5_10", 1, "pci0000:80/0000:80:01.0/0000:81:00.1", map[int]string{1: up}, "eth10")
	f.device("mlx5_2", 0, "pci0000:00/0000:00:02.0/0000:02:00.0", map[int]string{1: down}, "eth2")
	f.device("rxe0", -1, "virtual/net/veth0", map[int]string{1: up}, "veth0")
	f.file("sys/devices/system/node/node0/distance", "10 21")
	f.file("sys/devices/system/node/node1/distance", "21 10")
	return f.root
}

func TestChoose(t *testing.T) {
	root := machine(t)
	devices, err := Read(root, true)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		w    Wanted
		want string // device.port in order, those that share the load before |
		why  string // part of a rejection or of the error
	}{
		"any":               {Wanted{Node: -1}, "mlx5_0.1 mlx5_1.2 mlx5_10.1 rxe0.1 |", "mlx5_2: port 1 is DOWN"},
		"memory on node 0":  {Wanted{Node: 0}, "mlx5_0.1 rxe0.1 | mlx5_1.2 mlx5_10.1", "mlx5_2"},
		"memory on node 1":  {Wanted{Node: 1}, "mlx5_1.2 mlx5_10.1 rxe0.1 | mlx5_0.1", "mlx5_2"},
		"exactly mlx5_1":    {Wanted{Names: []string{"mlx5_1"}, Node: -1}, "mlx5_1.2 |", "mlx5_10: --device names others"},
		"in the order told": {Wanted{Names: []string{"rxe0", "mlx5_0"}, Node: -1}, "rxe0.1 mlx5_0.1 |", ""},
		"an interface":      {Wanted{Names: []string{"eth10"}, Node: -1}, "mlx5_10.1 |", ""},
		"named and down":    {Wanted{Names: []string{"mlx5_2"}, Node: -1}, "mlx5_2.1 |", ""},
		"its port":          {Wanted{Names: []string{"mlx5_1"}, Port: 1, Node: -1}, "mlx5_1.1 |", ""},
		"no such port":      {Wanted{Names: []string{"mlx5_0"}, Port: 2, Node: -1}, "", "mlx5_0: has no port 2, only 1 to 1"},
		"no such device":    {Wanted{Names: []string{"mlx5_3"}, Node: -1}, "", "--device mlx5_3: no RDMA device or network interface of one has this name; there are mlx5_0 (eth0), mlx5_1 (eth1)"},
		"a port of some":    {Wanted{Port: 2, Node: -1}, "mlx5_1.2 |", "mlx5_0: has no port 2"},
		"near a GPU":        {Wanted{Node: -1, Near: "pci0000:80/0000:80:01.0/0000:82:00.0"}, "mlx5_1.2 mlx5_10.1 | mlx5_0.1 rxe0.1", ""},
	} {
		rails, rejected, err := Choose(devices, Distances(root), c.w)
		var got []string
		near := len(Nearest(rails))
		for i, r := range rails {
			if i == near {
				got = append(got, "|")
			}
			got = append(got, fmt.Sprintf("%s.%d", r.Device.Name, r.Port.Number))
		}
		if near == len(rails) && near > 0 {
			got = append(got, "|")
		}
		if strings.Join(got, " ") != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %s (%v), want %s", name, strings.Join(got, " "), err, c.want)
		}
		if all := fmt.Sprint(rejected, err); !strings.Contains(all, c.why) {
			t.Errorf("%s: %s, want %q", name, all, c.why)
		}
	}
}

// TestForeign: what speaks iWARP is not taken, not even if it is named, and
// lends its interface's name to who speaks RoCE.
func TestForeign(t *testing.T) {
	f := tree{t, t.TempDir()}
	for _, d := range []struct{ name, kind, ndev string }{
		{"efa0", "7: unspecified", "eth0"}, {"irdma0", "4: RNIC", "eth1"}, {"rxe5", "1: CA", "eth5"}, {"siw5", "4: RNIC", "eth5"},
	} {
		f.device(d.name, -1, "virtual/"+d.name, map[int]string{1: up}, d.ndev)
		f.file(class+"/"+d.name+"/node_type", d.kind)
	}
	devices, err := Read(f.root, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, want, why string }{
		{"", "rxe5", "irdma0: is an iWARP device, want InfiniBand or RoCE"},
		{"", "rxe5", "efa0: is a device of type unspecified"},
		{"eth5", "rxe5", ""},
		{"siw5", "", "siw5: is an iWARP device"},
	} {
		w := Wanted{Node: -1}
		if c.name != "" {
			w.Names = []string{c.name}
		}
		rails, rejected, err := Choose(devices, nil, w)
		got := ""
		for _, r := range rails {
			got += r.Device.Name
		}
		if all := fmt.Sprint(rejected, err); got != c.want || (err != nil) != (c.want == "") || !strings.Contains(all, c.why) {
			t.Errorf("%q: %q and %s, want %q and %q", c.name, got, all, c.want, c.why)
		}
	}
}

func TestRead(t *testing.T) {
	devices, err := Read(machine(t), true)
	if err != nil {
		t.Fatal(err)
	}
	want := Device{Name: "mlx5_1", Node: 1, PCI: "pci0000:80/0000:80:01.0/0000:81:00.0", Netdevs: []string{"eth1"}, Ports: []Port{
		{1, "DOWN", "Ethernet", "100 Gb/sec (4X EDR)"}, {2, "ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)"}}}
	if !reflect.DeepEqual(devices[1], want) {
		t.Errorf("%+v, want %+v", devices[1], want)
	}
	want.Netdevs = nil
	if devices, err = Read(machine(t), false); err != nil || !reflect.DeepEqual(devices[1], want) {
		t.Errorf("not asked for interfaces: %+v, %v, want %+v", devices[1], err, want)
	}
	if list, err := Read(t.TempDir(), true); len(list) != 0 || err != nil {
		t.Errorf("a machine without devices: %v, %v", list, err)
	}
	if _, _, err := Choose(nil, nil, Wanted{Node: -1}); err == nil || !strings.Contains(err.Error(), "no RDMA device") {
		t.Errorf("no devices: %v", err)
	}
	f := tree{t, t.TempDir()}
	f.file(class+"/odd/ports/one/state", up)
	if _, err := Read(f.root, true); err == nil || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("a port without a number: %v", err)
	}
}

func TestHops(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"p/a", "p/a", 0}, {"p/s/a", "p/s/b", 2}, {"p/s/a", "p/t/b", 4}, {"p/a", "q/b", 4}} {
		if got := Hops(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
