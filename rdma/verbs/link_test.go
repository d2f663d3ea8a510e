package verbs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	ibv "psrt/csrc/verbs"
	"psrt/rdma/feature"
)

// ownLinks asks for a machine whose network interfaces a test may make and
// take down. The lab's own stay as they are.
var ownLinks = feature.Test{
	Name:        "network of the lab",
	Requirement: "a machine of the lab, where tests may make soft-RoCE devices and take links down",
	Remedy:      "make lab CMD='…' runs a command in one",
	Lab:         "rxe",
	Probe: func(feature.Root) error {
		if os.Getenv("PSRT_LAB") != "rxe" || os.Geteuid() != 0 {
			return fmt.Errorf("this is not the lab's root: %w", feature.ErrNotSupported)
		}
		return nil
	},
}

// link is a veth pair with a soft-RoCE device on each end, which the test may
// take down: one end down is both down, as with a cable. What one device sends
// to the other crosses it.
type link struct {
	t       testing.TB
	devices [2]string
}

var (
	linkEnds = [2]string{"pt0", "pt1"}
	linkIPs  = [2]string{"10.79.0.1", "10.79.0.2"}
)

func newLink(t testing.TB) *link {
	t.Helper()
	devices(t)
	feature.SkipUnless(t, feature.NewProber("").Check(ownLinks))
	l := &link{t: t, devices: [2]string{"rxt0", "rxt1"}}
	t.Cleanup(func() {
		sh(t, "set +e; rdma link delete rxt0; rdma link delete rxt1; ip link delete pt0; ip rule del iif pt0; ip rule del iif pt1; ip rule del pref 9; true")
	})
	sh(t, `ip link add pt0 type veth peer name pt1
		for i in 0 1; do
			ip address add 10.79.0.$((i+1))/32 dev pt$i
			echo 1 > /proc/sys/net/ipv4/conf/pt$i/accept_local
			echo 0 > /proc/sys/net/ipv4/conf/pt$i/rp_filter
			ip rule add pref 4 iif pt$i lookup local
		done
		ip rule add pref 9 lookup 79`)
	l.up()
	sh(t, "rdma link add rxt0 type rxe netdev pt0; rdma link add rxt1 type rxe netdev pt1")
	l.ready()
	return l
}

// up brings the link up, with the routes that it loses when it goes down.
func (l *link) up() {
	l.t.Helper()
	sh(l.t, `ip link set pt0 mtu 4200 up; ip link set pt1 mtu 4200 up
		ip route replace 10.79.0.1 dev pt1 src 10.79.0.2 table 79
		ip route replace 10.79.0.2 dev pt0 src 10.79.0.1 table 79`)
}

// down takes one end down, and by that both ports.
func (l *link) down() {
	l.t.Helper()
	sh(l.t, "ip link set pt1 down")
}

func (l *link) mtu(end, bytes int) {
	l.t.Helper()
	sh(l.t, fmt.Sprintf("ip link set %s mtu %d", linkEnds[end], bytes))
}

// ready waits until both ports are active and have their addresses as GIDs.
func (l *link) ready() {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		missing := ""
		for i, d := range l.devices {
			if !strings.Contains(portFile(l.t, d, "state"), "ACTIVE") || gidIndex(l.t, d, linkIPs[i]) < 0 || gidIndex(l.t, d, "fe80") < 0 {
				missing += " " + d
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("not ready %s after they were made:%s", patience, missing)
		}
	}
}

// gidIndex finds an IPv4 address, or a GID by how it begins, in a port's
// table; -1: it is not there.
func gidIndex(t testing.TB, device, address string) int {
	t.Helper()
	var a, b, c, d int
	prefix := address
	if n, _ := fmt.Sscanf(address, "%d.%d.%d.%d", &a, &b, &c, &d); n == 4 {
		prefix = fmt.Sprintf("0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x", a, b, c, d)
	}
	for i := range 8 {
		if strings.HasPrefix(portFile(t, device, "gids/"+strconv.Itoa(i)), prefix) {
			return i
		}
	}
	return -1
}

func portFile(t testing.TB, device, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/sys/class/infiniband", device, "ports/1", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// activeMTU is the code of a port's MTU, which is no file.
func activeMTU(t testing.TB, device string) uint32 {
	t.Helper()
	c, err := ibv.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	return p.ActiveMTU
}

// packets counts what a device has received.
func packets(t testing.TB, device string) int {
	t.Helper()
	time.Sleep(20 * time.Millisecond) // the kernel keeps what it has read for 10
	n, err := strconv.Atoi(portFile(t, device, "hw_counters/rcvd_pkts"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sh(t testing.TB, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		t.Errorf("%s\n%v: %s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}
