package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/sched/metrics"
)

// tree is a machine made of files; "->" before a text makes a link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			err = os.Symlink(to, p)
		} else {
			err = os.WriteFile(p, []byte(text+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// one is the finding of a name and peer.
func one(t *testing.T, all []Finding, name, peer string) Finding {
	t.Helper()
	for _, f := range all {
		if f.Name == name && f.Peer == peer {
			return f
		}
	}
	t.Fatalf("no finding %q of %q among %+v", name, peer, all)
	return Finding{}
}

// rails is a device with two ports' worth of GIDs: of RoCE v1 and v2, of the
// loopback network, on which the peers of these tests are, and of another.
func rails(more map[string]string) map[string]string {
	const port = "sys/class/infiniband/mlx5_0/ports/1/"
	files := map[string]string{
		port + "state": "4: ACTIVE", port + "rate": "100 Gb/sec (4X EDR)",
		port + "gids/0": "0000:0000:0000:0000:0000:ffff:7f00:0001", port + "gid_attrs/types/0": "IB/RoCE v1", port + "gid_attrs/ndevs/0": "eth0",
		port + "gids/1": "0000:0000:0000:0000:0000:ffff:7f00:0001", port + "gid_attrs/types/1": "RoCE v2", port + "gid_attrs/ndevs/1": "eth0",
		port + "gids/2": "0000:0000:0000:0000:0000:0000:0000:0000",
		port + "gids/3": "0000:0000:0000:0000:0000:ffff:0a09:0909", port + "gid_attrs/types/3": "RoCE v2", port + "gid_attrs/ndevs/3": "eth1",
		port + "gids/4": "fe80:0000:0000:0000:0000:0000:0000:0001", port + "gid_attrs/types/4": "RoCE v2", port + "gid_attrs/ndevs/4": "eth0",
		"sys/class/infiniband/mlx5_0/device/numa_node": "0",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

// A GID that peers are not reached from is named, with the peer and the one that is.
func TestWrongGID(t *testing.T) {
	root := tree(t, rails(nil))
	peers := []Peer{{Place: metrics.Place{Addr: "127.0.0.1"}}, {Place: metrics.Place{Name: "worker 3", Addr: "127.0.0.1:7700"}}}
	for _, c := range []struct {
		index             int
		peer, state, says string
		mend              string
	}{
		{0, "", Warn, "127.0.0.1 of eth0 (IB/RoCE v1) is not routed", "--gid-index 1, or leave it out"},
		{1, "", OK, "127.0.0.1 of eth0 (RoCE v2)", ""},
		{2, "", Missing, "this entry of the table is empty; set are 0: 127.0.0.1 (IB/RoCE v1), 1: 127.0.0.1 (RoCE v2), 3: 10.9.9.9 (RoCE v2), 4: fe80::1 (RoCE v2)", "leave --gid-index out"},
		{3, "127.0.0.1", Warn, "10.9.9.9 of eth1 (RoCE v2), but 127.0.0.1 is reached from 127.0.0.1", "--gid-index 1, or leave it out"},
		{3, "worker 3", Warn, "10.9.9.9 of eth1 (RoCE v2), but 127.0.0.1 is reached from 127.0.0.1", "--gid-index 1"},
		{4, "worker 3", Warn, "fe80::1 of eth0 (RoCE v2), but 127.0.0.1 is reached from 127.0.0.1, an address of another kind", "--gid-index 1"},
		{9, "", Missing, "this entry of the table is empty", "leave --gid-index out"},
	} {
		x := &examiner{machine{root}, Config{Device: "mlx5_0", GID: c.index, Peers: peers}, t.Context()}
		f := one(t, x.gid(), fmt.Sprintf("GID %d of mlx5_0/1", c.index), c.peer)
		if f.State != c.state || !strings.Contains(f.Figure, c.says) || !strings.HasPrefix(f.Mend, c.mend) || !f.Asked {
			t.Errorf("%d: %+v, want %+v", c.index, f, c)
		}
	}
	x := &examiner{machine{root}, Config{Device: "mlx5_7", GID: 1}, t.Context()}
	if f := one(t, x.gid(), "GID", ""); f.State != Missing || !strings.Contains(f.Figure, "no RDMA device mlx5_7") {
		t.Errorf("%+v", f)
	}
	if x.cfg.GID = -1; x.gid() != nil {
		t.Error("a GID that nobody asked for")
	}
}

func TestRDMA(t *testing.T) {
	root := tree(t, rails(map[string]string{
		"sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0", "dev/infiniband/uverbs0": "",
		"sys/class/infiniband_verbs/uverbs1/ibdev": "mlx5_1",
	}))
	x := &examiner{machine{root}, Config{}, t.Context()}
	all := x.rdma()
	if f := one(t, all, "RDMA port mlx5_0/1", ""); f.State != OK || f.Figure != "4: ACTIVE, 100 Gb/sec (4X EDR), 4 GIDs, 3 of RoCE v2, NUMA node 0" {
		t.Errorf("%+v", f)
	}
	if f := one(t, all, "RDMA access to mlx5_0", ""); f.State != OK {
		t.Errorf("%+v", f)
	}
	if f := one(t, all, "RDMA access to mlx5_1", ""); f.State != Missing || !strings.Contains(f.Mend, "--device=/dev/infiniband/uverbs1") {
		t.Errorf("%+v", f)
	}
}

func TestGPUs(t *testing.T) {
	const a, b = "0000:17:00.0", "0000:98:00.0"
	files := rails(map[string]string{
		"proc/driver/nvidia/gpus/" + a + "/information": "Model: \t\t NVIDIA H200\nIRQ: 5", "sys/bus/pci/devices/" + a + "/numa_node": "0",
		"proc/driver/nvidia/gpus/" + b + "/information": "Model: \t\t NVIDIA H200", "sys/bus/pci/devices/" + b + "/numa_node": "1",
	})
	look := func() []Finding { return (&examiner{machine{tree(t, files)}, Config{}, t.Context()}).gpus() }
	all := look()
	if f := one(t, all, "GPU "+a, ""); f.Figure != "NVIDIA H200, NUMA node 0, as is mlx5_0" {
		t.Errorf("%+v", f)
	}
	if f := one(t, all, "GPU "+b, ""); f.Figure != "NVIDIA H200, NUMA node 1" {
		t.Errorf("%+v", f)
	}
	if f := one(t, all, "GPUDirect RDMA", ""); f.State != Missing || f.Mend != "modprobe nvidia_peermem" {
		t.Errorf("%+v", f)
	}
	files["proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64"
	if f := one(t, look(), "GPUDirect RDMA", ""); f.State != OK || !strings.Contains(f.Figure, "dma-buf") {
		t.Errorf("%+v", f)
	}
	files["sys/module/nvidia_peermem/refcnt"] = "0"
	if f := one(t, look(), "GPUDirect RDMA", ""); f.State != OK || !strings.Contains(f.Figure, "nvidia_peermem is loaded") {
		t.Errorf("%+v", f)
	}
}

// What is between cards, and between a card and a network card, is read from where they
// are on the PCI bus.
func TestWaysBetweenGPUs(t *testing.T) {
	const root, far = "sys/devices/pci0000:16/0000:16:01.0/", "sys/devices/pci0000:97/0000:97:01.0/"
	files := map[string]string{"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: gcc 12"}
	for at, dir := range map[string]string{
		"0000:18:00.0": root + "0000:17:00.0/0000:18:00.0", "0000:19:00.0": root + "0000:17:01.0/0000:19:00.0", // behind a switch
		"0000:1a:00.0": "sys/devices/pci0000:16/0000:16:02.0/0000:1a:00.0", "0000:98:00.0": far + "0000:98:00.0", "0000:ab:00.0": "sys/devices/pci0000:aa/0000:aa:01.0/0000:ab:00.0",
	} {
		files["proc/driver/nvidia/gpus/"+at+"/information"] = "Model: NVIDIA H200"
		files["sys/bus/pci/devices/"+at] = "->../../../../" + dir
		files[dir+"/numa_node"], files[dir+"/current_link_width"], files[dir+"/max_link_width"], files[dir+"/max_link_speed"] = "0", "16", "16", "32.0 GT/s PCIe"
	}
	files[far+"0000:98:00.0/numa_node"], files["sys/devices/pci0000:aa/0000:aa:01.0/0000:ab:00.0/numa_node"] = "1", "1"
	files["sys/devices/pci0000:16/0000:16:02.0/0000:1a:00.0/current_link_width"] = "8"
	files["sys/class/infiniband/mlx5_0/device"] = "->../../../devices/pci0000:16/0000:16:01.0/0000:17:02.0/0000:1b:00.0"
	files[root+"0000:17:02.0/0000:1b:00.0/numa_node"] = "0"
	files["sys/class/infiniband/mlx5_1/device"] = "->../../../devices/pci0000:97/0000:97:02.0/0000:99:00.0"
	files["sys/devices/pci0000:97/0000:97:02.0/0000:99:00.0/numa_node"] = "1"
	look := func() []Finding { return (&examiner{machine{tree(t, files)}, Config{}, t.Context()}).gpus() }
	all := look()
	for name, want := range map[string][3]string{
		"GPU 0000:18:00.0":  {OK, "NVIDIA H200, NUMA node 0, PCIe x16 of up to 32.0 GT/s, behind one PCIe switch with mlx5_0", ""},
		"GPU 0000:1a:00.0":  {Warn, "NVIDIA H200, NUMA node 0, PCIe x8 of up to 32.0 GT/s, though it could be x16, at one PCIe root with mlx5_0", "seat the card anew, or put it into a wider slot"},
		"GPU 0000:98:00.0":  {OK, "NVIDIA H200, NUMA node 1, PCIe x16 of up to 32.0 GT/s, at one PCIe root with mlx5_1", ""},
		"GPU 0000:ab:00.0":  {OK, "NVIDIA H200, NUMA node 1, PCIe x16 of up to 32.0 GT/s, as is mlx5_1", ""},
		"GPU driver":        {OK, "550.54.15", ""},
		"ways between GPUs": {OK, "1 pair behind one PCIe switch, 2 pairs at one PCIe root, 1 pair of one NUMA node, 6 pairs of two NUMA nodes", ""},
	} {
		if f := one(t, all, name, ""); f.State != want[0] || f.Figure != want[1] || f.Mend != want[2] {
			t.Errorf("%+v, want %q", f, want)
		}
	}
	for i := range 4 {
		files[fmt.Sprintf("proc/driver/nvidia-nvswitch/devices/0000:0%d:00.0", i)] = ""
	}
	if f := one(t, look(), "ways between GPUs", ""); !strings.HasSuffix(f.Figure, "; 4 NVLink switches join them") {
		t.Errorf("%+v", f)
	}
}

func TestCardsDisksAndCPUs(t *testing.T) {
	const nvme, node = "sys/devices/pci0000:80/0000:81:00.0/nvme/nvme0/nvme0n1/", "sys/devices/system/cpu/cpu0/cpufreq/"
	root := tree(t, map[string]string{
		"sys/class/net/ib0/device/numa_node": "1", "sys/class/net/ib0/operstate": "up", "sys/class/net/ib0/speed": "200000", "sys/class/net/ib0/mtu": "1500",
		"sys/class/net/eth0/operstate": "up", "sys/class/net/eth0/speed": "-1", "sys/class/net/eth0/mtu": "1500",
		"sys/class/net/docker0/operstate": "up", "sys/class/net/lo/operstate": "unknown",
		"sys/devices/pci0000:80/0000:81:00.0/numa_node": "1", nvme + "queue/rotational": "0", nvme + "device/device/numa_node": "1",
		"sys/block/nvme0n1":           "->../devices/pci0000:80/0000:81:00.0/nvme/nvme0/nvme0n1",
		"sys/block/sda/device/vendor": "ATA", "sys/block/sda/queue/rotational": "1", "sys/block/vda/device/vendor": "0x1af4", "sys/block/vda/queue/rotational": "1", "sys/block/loop0/queue/rotational": "0",
		node + "scaling_governor": "performance", node + "cpuinfo_max_freq": "3500000", node + "scaling_max_freq": "2100000",
		"sys/devices/system/cpu/intel_pstate/no_turbo": "1",
		"sys/dev/block/259:2":                          "->../../devices/pci0000:80/0000:81:00.0/nvme/nvme0/nvme0n1",
		"proc/self/mountinfo":                          "22 1 0:20 / / rw - overlay overlay rw\n36 22 259:2 / /nvme\\0400 rw,relatime - xfs /dev/nvme0n1p1 rw\n37 22 0:31 / /nvme rw - tmpfs tmpfs rw",
	})
	x := &examiner{machine{root}, Config{}, t.Context()}
	for _, c := range []struct {
		f                   Finding
		state, figure, mend string
	}{
		{one(t, x.network(), "network card ib0", ""), Warn, "NUMA node 1, up, 200 Gbit/s, MTU 1500", "ip link set dev ib0 mtu 9000, at every host and switch port"},
		{one(t, x.network(), "network card eth0", ""), OK, "of no NUMA node that is known, up, MTU 1500", ""},
		{one(t, x.disks(), "disk nvme0n1", ""), OK, "NUMA node 1", ""},
		{one(t, x.disks(), "disk sda", ""), Warn, "of no NUMA node that is known, rotating: too slow for rows", "give --ssd a directory on another disk"},
		{one(t, x.disks(), "disk vda", ""), OK, "of no NUMA node that is known", ""},
		{x.governor()[0], Warn, "governor of CPUs: 1 performance; turbo is off; 1 may not run at their highest frequency (2.1 of 3.5 GHz)", "cpupower frequency-set --max MAXIMUM"},
	} {
		if c.f.State != c.state || c.f.Figure != c.figure || c.f.Mend != c.mend {
			t.Errorf("%+v, want %+v", c.f, c)
		}
	}
	if n := len(x.network()) + len(x.disks()); n != 5 {
		t.Errorf("%d cards and disks, want 5: %+v %+v", n, x.network(), x.disks())
	}
	for dir, want := range map[string][2]string{
		"/nvme 0/rows": {"xfs", " on /dev/nvme0n1p1, NUMA node 1"}, "/nvme/x": {"tmpfs", ", which is memory"}, "/home": {"overlay", " on overlay"}, "/nvmes": {"overlay", " on overlay"},
	} {
		if kind, device := x.mounted(dir); kind != want[0] || device != want[1] {
			t.Errorf("%s is on %q%q, want %q", dir, kind, device, want)
		}
	}
}

func TestKernel(t *testing.T) {
	for _, c := range []struct {
		caps, state, says string
	}{
		{"000001ffffffffff", OK, "this user may use it"},
		{"0000000000000000", Warn, "lacks CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN"},
		{"0000008000001000", Warn, "lacks CAP_PERFMON;"},
		{"000000c000001000", OK, "this user may use it"},
		{"nonsense", OK, "root or CAP_BPF is needed, too"},
	} {
		x := &examiner{machine{tree(t, map[string]string{"sys/kernel/btf/vmlinux": "", "proc/self/status": "Name:\tpsrt\nCapEff:\t" + c.caps + "\nCapBnd:\t0"})}, Config{}, t.Context()}
		if f := x.bpf(); f.State != c.state || !strings.Contains(f.Figure, c.says) {
			t.Errorf("%s: %+v", c.caps, f)
		}
	}
}

// Who has a port is found by its socket.
func TestPortOfAProcess(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	root := tree(t, map[string]string{
		"proc/net/tcp":  head + "   0: 0100007F:1E14 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n   1: 0100007F:1F90 0100007F:1E14 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0",
		"proc/net/tcp6": head + "   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 99 1 0",
		"proc/12/fd/3":  "->socket:[4711]", "proc/12/comm": "psrt", "proc/13/fd/0": "->/dev/null",
	})
	x := &examiner{machine{root}, Config{Listen: []string{"127.0.0.1:7700", ":22", ":8080", "nonsense", ":70000"}}, t.Context()}
	all := x.listening()
	for name, want := range map[string]string{
		"listening at 127.0.0.1:7700": "port in use by process 12 (psrt)", "listening at :22": "port in use by a process of another user or namespace",
		"listening at :8080": "free", "listening at nonsense": "this is no address to listen at", "listening at :70000": "this is no address to listen at",
		"port 7700": "in use by process 12 (psrt)",
	} {
		if f := one(t, all, name, ""); f.Figure != want || (f.State == OK) != (want == "free" || name == "port 7700") {
			t.Errorf("%+v, want %s", f, want)
		}
	}
}

// A file that hangs does not hold up the others.
func TestAGroupThatHangs(t *testing.T) {
	root := tree(t, map[string]string{"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance"})
	pipe := filepath.Join(root, "proc/self/mountinfo")
	if err := os.MkdirAll(filepath.Dir(pipe), 0o755); err != nil {
		t.Fatal(err)
	}
	mkfifo(t, pipe) // nobody writes: reading it never ends
	dir := t.TempDir()
	all := Examine(t.Context(), Config{Root: root, GID: -1, Dirs: []string{dir}, Within: 5 * time.Second})
	if f := one(t, all, "directory "+dir, ""); f.State != Warn || !f.Asked || !strings.Contains(f.Figure, "has not ended after 5s") {
		t.Errorf("%+v", f)
	}
	one(t, all, "CPU frequency", "")
	write, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := write.Close(); err != nil { // let the reader go
		t.Fatal(err)
	}
}

func TestFailedAndString(t *testing.T) {
	all := []Finding{{State: Warn}, {State: OK, Asked: true}, {State: Missing, Asked: true, Name: "peer", Peer: "h2", Figure: "dead", Mend: "start it"}}
	if Failed(all) != 1 {
		t.Errorf("%d failed", Failed(all))
	}
	if s := all[2].String(); !strings.HasPrefix(s, "missing  h2: peer ") || !strings.HasSuffix(s, " dead; try: start it") {
		t.Error(s)
	}
}
