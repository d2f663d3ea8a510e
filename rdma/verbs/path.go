package verbs

import (
	"bytes"
	"fmt"
	"math/bits"

	ibv "psrt/csrc/verbs"
	"psrt/rdma"
)

// pair picks the GIDs that two ports talk by. Both sides must come to the same
// pair without asking each other, because a queue pair accepts packets from
// one GID only: so the rule is symmetric. RoCE v2 before v1; IPv4 before
// routable IPv6 before link-local; of several the two with the most leading
// bits in common, which are those of one subnet; then the smallest.
func pair(mine, theirs []gid) (m, t gid, err error) {
	best := -1
	for _, a := range mine {
		for _, b := range theirs {
			s := score(a, b)
			if s < 0 || s < best {
				continue
			}
			if s > best || bytes.Compare(key(a, b), key(m, t)) < 0 {
				best, m, t = s, a, b
			}
		}
	}
	if best < 0 {
		return m, t, fmt.Errorf("verbs: this port has the GIDs %s, the peer's %s: no two of one kind: %w; give both ports an IPv4 address, or set --gid-index on both sides",
			names(mine), names(theirs), rdma.ErrInvalid)
	}
	return m, t, nil
}

// key orders pairs, the same from both ends.
func key(a, b gid) []byte {
	x, y := a.raw[:], b.raw[:]
	if bytes.Compare(x, y) > 0 {
		x, y = y, x
	}
	return append(bytes.Clone(x), y...)
}

// score is -1 where the two cannot talk.
func score(a, b gid) int {
	if a.kind != b.kind || a.family() != b.family() {
		return -1
	}
	s := a.family()
	if a.kind == ibv.GIDTypeRoCEv2 {
		s += 10
	}
	return s*1000 + common(a.raw, b.raw)
}

const (
	linkLocal = iota
	routable6
	mapped4
)

func (g gid) family() int {
	switch {
	case g.raw[0] == 0xfe && g.raw[1]&0xc0 == 0x80:
		return linkLocal
	case bytes.Equal(g.raw[:12], []byte{10: 0xff, 11: 0xff}):
		return mapped4
	}
	return routable6
}

func common(a, b [16]byte) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return 8*i + bits.LeadingZeros8(x)
		}
	}
	return 128
}

// usable leaves out the entries that are empty, and those that a queue pair
// cannot be given.
func usable(ctx *ibv.Context, port int) ([]gid, error) {
	all, err := ctx.GIDs(port)
	var list []gid
	for _, g := range all {
		if g.Raw != [16]byte{} && g.Index <= 255 && len(list) < maxGIDs {
			list = append(list, gid{index: uint8(g.Index), kind: uint8(g.Type), raw: g.Raw})
		}
	}
	return list, err
}

func (g gid) String() string {
	kind := [...]string{"IB", "RoCE v1", "RoCE v2"}
	name := fmt.Sprintf("type %d", g.kind)
	if int(g.kind) < len(kind) {
		name = kind[g.kind]
	}
	if g.family() == mapped4 {
		return fmt.Sprintf("%s %d.%d.%d.%d", name, g.raw[12], g.raw[13], g.raw[14], g.raw[15])
	}
	text := ""
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			text += ":"
		}
		text += fmt.Sprintf("%x", uint16(g.raw[i])<<8|uint16(g.raw[i+1]))
	}
	return name + " " + text
}

func names(list []gid) string {
	if len(list) == 0 {
		return "(none)"
	}
	text := ""
	for i, g := range list {
		if i > 0 {
			text += ", "
		}
		text += g.String()
	}
	return text
}
