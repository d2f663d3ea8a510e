package discover

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxGIDIndex bounds what is believed of a table; mlx5 has 256 entries.
const maxGIDIndex = 4095

func (t tree) port(dir string, number int) (Port, error) {
	p := Port{Number: number}
	state, err := t.text(dir, "state")
	if err != nil {
		return p, err
	}
	p.State = afterColon(state) // "4: ACTIVE"
	p.PhysState = afterColon(t.maybe(dir, "phys_state"))
	p.LinkLayer = LinkLayer(t.maybe(dir, "link_layer"))
	if f := strings.Fields(t.maybe(dir, "rate")); len(f) > 0 { // "100 Gb/sec (4X EDR)"
		if rate, err := strconv.ParseFloat(f[0], 64); err == nil && rate > 0 && rate < 1e6 {
			p.RateGbps = rate
		}
	}
	if lid, err := strconv.ParseUint(t.maybe(dir, "lid"), 0, 16); err == nil { // "0x1a"
		p.LID = uint16(lid)
	}
	if p.GIDs, err = t.gids(dir, p.LinkLayer); err != nil {
		return p, err
	}
	if p.LinkLayer == Ethernet {
		p.MTUBytes = t.roceMTU(p.GIDs)
	}
	return p, nil
}

// gids reads a port's table without its empty entries, ascending.
func (t tree) gids(dir string, link LinkLayer) ([]GID, error) {
	names, err := t.names(dir, "gids")
	if err != nil {
		return nil, err
	}
	var list []GID
	for _, name := range names {
		index, err := strconv.Atoi(name)
		if err != nil || index < 0 || index > maxGIDIndex {
			return nil, fmt.Errorf("discover: %s has the entry %.20q, want numbers to %d", t.path(dir, "gids"), name, maxGIDIndex)
		}
		text, err := t.text(dir, "gids", name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		g := GID{Index: index}
		if g.Raw, err = parseGID(text); err != nil {
			return nil, fmt.Errorf("discover: %s: %w", t.path(dir, "gids", name), err)
		}
		if g.Raw == [16]byte{} {
			continue
		}
		g.Type = gidType(t.maybe(dir, "gid_attrs/types", name), link)
		g.Netdev = t.netdev(dir, "gid_attrs/ndevs", name)
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b GID) int { return a.Index - b.Index })
	return list, nil
}

// gidType reads "RoCE v2" or "IB/RoCE v1"; an entry that is being removed has
// none and counts as the older one.
func gidType(text string, link LinkLayer) GIDType {
	switch {
	case link == InfiniBand:
		return IB
	case text == "RoCE v2":
		return RoCEv2
	}
	return RoCEv1
}

// parseGID reads "fe80:0000:0000:0000:0000:00ff:fe00:0001".
func parseGID(text string) (raw [16]byte, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, ":", ""))
	if err != nil || len(b) != len(raw) || strings.Count(text, ":") != 7 || len(text) != 39 {
		return raw, fmt.Errorf("%.50q is not a GID of eight groups of four digits", text)
	}
	return [16]byte(b), nil
}

// roceMTU is from the first of the interfaces that is there.
func (t tree) roceMTU(gids []GID) int {
	for _, g := range gids {
		if g.Netdev == "" {
			continue
		}
		if mtu, err := strconv.Atoi(t.maybe("sys/class/net", g.Netdev, "mtu")); err == nil {
			return RoCEMTU(mtu)
		}
	}
	return 0
}

func afterColon(s string) string {
	if _, after, ok := strings.Cut(s, ": "); ok {
		return after
	}
	return s
}

// Counters reads a port's hardware counters: on soft-RoCE sent_pkts,
// rcvd_pkts, duplicate_request and others. Devices that keep none have none.
func Counters(root, device string, port int) (map[string]uint64, error) {
	t := tree(root)
	if device != filepath.Base(device) || device == ".." {
		return nil, fmt.Errorf("discover: %.40q is not the name of a device", device)
	}
	dir := filepath.Join(classDir, device, "ports", strconv.Itoa(port))
	if _, err := t.text(dir, "state"); err != nil {
		return nil, fmt.Errorf("discover: counters of %s port %d: %w", device, port, err)
	}
	found := map[string]uint64{}
	for _, sub := range []string{"hw_counters", "counters"} {
		names, err := t.names(dir, sub)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("discover: counters of %s port %d: %w", device, port, err)
		}
		for _, name := range names {
			if n, err := strconv.ParseUint(t.maybe(dir, sub, name), 10, 64); err == nil {
				found[name] = n
			}
		}
	}
	return found, nil
}
