package verbs

import (
	"encoding/binary"
	"fmt"
	"time"

	"psrt/rdma"
)

// address is what a peer must know to connect to an endpoint: the content of
// Endpoint.Address. On the wire, little endian:
//
//	0   4  magic "psV1"
//	4   4  queue pair number
//	8   4  first packet sequence number
//	12  4  local id (InfiniBand), 0 on Ethernet
//	16  4  milliseconds of OpTimeout
//	20  1  active MTU of the port, as enum
//	21  1  reads and atomics that may be in flight to this side
//	22  1  link layer (1 InfiniBand, 2 Ethernet)
//	23  1  number of GIDs, then as many of 17 bytes: type, GID
type address struct {
	qpn, psn, lid      uint32
	opTimeout          time.Duration
	mtu, readsIn, link uint8
	gids               []gid
}

// gid is one entry of a port's table that peers may use.
type gid struct {
	index uint8 // local matter, not sent
	kind  uint8 // ibv.GIDType...
	raw   [16]byte
}

const (
	addressMagic = "psV1"
	addressHead  = 24
	gidSize      = 17
	// maxGIDs keeps an address below 1 KiB.
	maxGIDs = 56
)

func (a *address) encode() []byte {
	b := make([]byte, addressHead, addressHead+gidSize*len(a.gids))
	copy(b, addressMagic)
	binary.LittleEndian.PutUint32(b[4:], a.qpn)
	binary.LittleEndian.PutUint32(b[8:], a.psn)
	binary.LittleEndian.PutUint32(b[12:], a.lid)
	binary.LittleEndian.PutUint32(b[16:], uint32(a.opTimeout.Milliseconds()))
	b[20], b[21], b[22], b[23] = a.mtu, a.readsIn, a.link, uint8(len(a.gids))
	for _, g := range a.gids {
		b = append(append(b, g.kind), g.raw[:]...)
	}
	return b
}

func decodeAddress(b []byte) (*address, error) {
	bad := func(what string) error {
		return fmt.Errorf("verbs: a peer's address of %d bytes: %s: %w; run the same psrt on both ends", len(b), what, rdma.ErrInvalid)
	}
	if len(b) < addressHead || string(b[:4]) != addressMagic {
		return nil, bad("it does not begin with " + addressMagic)
	}
	n := int(b[23])
	if n > maxGIDs || len(b) != addressHead+n*gidSize {
		return nil, bad(fmt.Sprintf("%d GIDs are announced", n))
	}
	a := &address{
		qpn: binary.LittleEndian.Uint32(b[4:]), psn: binary.LittleEndian.Uint32(b[8:]), lid: binary.LittleEndian.Uint32(b[12:]),
		opTimeout: time.Duration(binary.LittleEndian.Uint32(b[16:])) * time.Millisecond,
		mtu:       b[20], readsIn: b[21], link: b[22],
	}
	if a.qpn > 0xffffff || a.psn > 0xffffff || a.lid > 0xffff {
		return nil, bad(fmt.Sprintf("queue pair %d, sequence number %d, local id %d: more bits than these have", a.qpn, a.psn, a.lid))
	}
	if a.mtu < 1 || a.mtu > 5 {
		return nil, bad(fmt.Sprintf("MTU code %d, want 1 to 5", a.mtu))
	}
	for b := b[addressHead:]; len(b) > 0; b = b[gidSize:] {
		g := gid{kind: b[0]}
		copy(g.raw[:], b[1:])
		a.gids = append(a.gids, g)
	}
	return a, nil
}
