package doctor

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// addr is the address in a GID: RoCE v2 has IPv4 ones mapped into IPv6.
func (g gid) addr() netip.Addr {
	b, err := hex.DecodeString(strings.ReplaceAll(g.raw, ":", ""))
	if err != nil || len(b) != 16 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(b)).Unmap()
}

// gid judges the entry that the user names, against the way to each peer.
func (x *examiner) gid() (all []Finding) {
	if x.cfg.GID < 0 || x.cfg.Device == "" && x.cfg.GID == 0 {
		return nil
	}
	ports := x.glob("sys/class/infiniband/" + cmpOr(x.cfg.Device, "*") + "/ports/" + portPattern(x.cfg.Port))
	if len(ports) == 0 {
		return []Finding{{Name: "GID", State: Missing, Asked: true, Figure: fmt.Sprintf("no RDMA device %s with a port %s", x.cfg.Device, portPattern(x.cfg.Port)), Mend: "rdma link; --device"}}
	}
	port := ports[0]
	name := fmt.Sprintf("GID %d of %s/%s", x.cfg.GID, filepath.Base(filepath.Dir(filepath.Dir(port))), filepath.Base(port))
	table := x.gids(x.below(port))
	var g gid
	for _, one := range table {
		if one.index == strconv.Itoa(x.cfg.GID) {
			g = one
		}
	}
	if g.raw == "" {
		return []Finding{{Name: name, State: Missing, Asked: true, Figure: "this entry of the table is empty; set are " + listGIDs(table), Mend: "leave --gid-index out: psrt finds the pair that suits both peers"}}
	}
	what := fmt.Sprintf("%s of %s (%s)", g.addr(), cmpOr(g.netdev, "no interface"), cmpOr(g.kind, "no type"))
	if strings.Contains(g.kind, "v1") {
		return []Finding{{Name: name, State: Warn, Asked: true, Figure: what + " is not routed: peers on another subnet are not reached", Mend: mendGID(better(table, g.addr()))}}
	}
	for _, p := range x.cfg.Peers {
		from, to, err := x.sourceTo(p)
		if err != nil || from == g.addr() {
			continue
		}
		f := Finding{Name: name, Peer: p.called(), State: Warn, Asked: true, Figure: fmt.Sprintf("%s, but %s is reached from %s", what, to, from), Mend: mendGID(better(table, from))}
		if g.addr().Is4() != from.Is4() {
			f.Figure += ", an address of another kind"
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		all = []Finding{{Name: name, State: OK, Asked: true, Figure: what}}
	}
	return all
}

// better is the routed entry of an address, -1 where there is none.
func better(table []gid, from netip.Addr) int {
	for _, g := range table {
		if g.addr() == from && !strings.Contains(g.kind, "v1") {
			if n, err := strconv.Atoi(g.index); err == nil {
				return n
			}
		}
	}
	return -1
}

func mendGID(index int) string {
	if index >= 0 {
		return fmt.Sprintf("--gid-index %d, or leave it out", index)
	}
	return "another --device, or leave --gid-index out: psrt finds the pair that suits both peers"
}

func listGIDs(table []gid) string {
	var words []string
	for _, g := range table {
		words = append(words, fmt.Sprintf("%s: %s (%s)", g.index, g.addr(), cmpOr(g.kind, "no type")))
	}
	return cmpOr(strings.Join(words, ", "), "none")
}

func portPattern(n int) string {
	if n > 0 {
		return strconv.Itoa(n)
	}
	return "*"
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
