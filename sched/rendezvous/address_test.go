package rendezvous

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sysfs makes a tree of empty files, or of files with text after "=".
func sysfs(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		p := filepath.Join(root, "class/net", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func at(name, prefix string) address {
	return address{name: name, up: true, loopback: name == "lo", prefix: netip.MustParsePrefix(prefix)}
}

// What a host offers to others: never loopback, never what only its own guests
// can reach, the best first.
func TestCandidates(t *testing.T) {
	down := at("eth9", "10.9.9.9/24")
	down.up = false
	all := []address{at("lo", "127.0.0.1/8"), at("lo", "10.255.0.1/32"), at("lo", "::1/128"), down, at("docker0", "172.17.0.1/16"), at("br-4af1", "172.18.0.1/16"),
		at("virbr0", "192.168.122.1/24"), at("mybr", "192.168.200.1/24"), at("br0", "10.1.0.5/24"), at("mgmt", "192.168.1.5/24"),
		at("mgmt", "fe80::1/64"), at("mgmt", "2001:db8::5/64"), at("fast", "10.2.0.5/24"), at("ib0", "10.3.0.5/24")}
	root := sysfs(t, "mybr/bridge/x", "mybr/brif/veth1", "veth1/speed=10000", "br0/bridge/x", "br0/brif/eth0", "eth0/device", "br0/speed=1000",
		"mgmt/speed=1000", "fast/speed=100000", "ib0/device/infiniband/mlx5_0", "ib0/speed=-1")
	for _, c := range []struct {
		only, want, err string
	}{
		{"", "10.3.0.5 10.2.0.5 10.1.0.5 192.168.1.5 2001:db8::5", ""},
		{"mgmt", "192.168.1.5 2001:db8::5", ""},
		{"10.0.0.0/8", "10.3.0.5 10.2.0.5 10.1.0.5", ""},
		{"docker0", "172.17.0.1", ""}, // named, so meant
		{"mybr", "192.168.200.1", ""},
		{"eth7", "", "--interface eth7"},
		{"lo", "", "is loopback"},
		{"eth9", "", "is down"},
	} {
		list, err := choose(all, c.only, root)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.only, err, c.err)
			continue
		}
		if got := strings.Join(addrs(list), " "); got != c.want {
			t.Errorf("%q offers %s, want %s", c.only, got, c.want)
		}
	}
	if list, err := choose(all[:5], "", root); err != nil || len(list) != 0 {
		t.Errorf("a host without a network offers %v, %v", list, err)
	}
}

func TestJudge(t *testing.T) {
	who := func(r int) string { return []string{"server 0", "server 1", "worker 0", "worker 1"}[r] }
	two := []Candidate{{Interface: "fast", Prefix: netip.MustParsePrefix("10.2.0.1/24")}, {Interface: "mgmt", Prefix: netip.MustParsePrefix("192.168.1.1/24")}}
	cards := func() []Card {
		var c []Card
		for r := range 4 {
			c = append(c, Card{Rank: r, Host: "n" + string(rune('1'+r)), Candidates: two})
		}
		return c
	}
	ok := []reached{{Candidate: 0}, {Candidate: 1}}
	only := func(i int) []reached {
		l := []reached{{Candidate: 0, Error: "refused"}, {Candidate: 1, Error: "refused"}}
		l[i].Error = ""
		return l
	}
	none := []reached{{Candidate: 0, Error: "refused"}, {Candidate: 1, Error: "no route"}}
	type at struct{ from, to int }
	for _, c := range []struct {
		name   string
		cells  map[at][]reached
		chosen []int
		says   []string
	}{
		{"all well", nil, []int{0, 0, 0, 0}, nil},
		{"the fast network has not everybody", map[at][]reached{{3, 0}: only(1), {3, 1}: only(1)}, []int{1, 1, 0, 0}, nil},
		{"one way of one pair", map[at][]reached{{2, 1}: none}, nil, []string{
			"rank 2 (worker 0) on n3 with the addresses 10.2.0.1, 192.168.1.1 cannot reach rank 1 (server 1) on n2 at 10.2.0.1 (fast): refused, 192.168.1.1 (mgmt): no route", "firewall", "--interface"}},
		{"a host cut off", map[at][]reached{{0, 3}: none, {1, 3}: none, {2, 3}: none, {3, 0}: none, {3, 1}: none, {3, 2}: none}, nil,
			[]string{"and 3 more", "all of these have rank 3 (worker 1) on n4 in common"}},
		{"no common address", map[at][]reached{{1, 0}: only(0), {2, 0}: only(1)}, nil, []string{"rank 0 (server 0) on n1 has no address that all ranks reach"}},
		{"nonsense", map[at][]reached{{1, 0}: {{Candidate: 7}}}, nil, []string{"address 7"}},
	} {
		table := make([][][]reached, 4)
		for from := range table {
			table[from] = make([][]reached, 4)
			for to := range table[from] {
				table[from][to] = ok
				if l, there := c.cells[at{from, to}]; there {
					table[from][to] = l
				}
			}
		}
		chosen, err := judge(cards(), table, who)
		if !reflect.DeepEqual(chosen, c.chosen) || (err != nil) != (c.says != nil) {
			t.Errorf("%s: %v, %v; want %v", c.name, chosen, err, c.chosen)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %q is not in: %v", c.name, says, err)
			}
		}
	}
	lonely := cards()
	lonely[3].Candidates = nil
	table := make([][][]reached, 4)
	for from := range table {
		table[from] = [][]reached{ok, ok, ok, nil}
	}
	if _, err := judge(lonely, table, who); err == nil || !strings.Contains(err.Error(), "has no address for other hosts") {
		t.Errorf("a host without a network: %v", err)
	}
}
