package tcp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"psrt/rdma"
	"psrt/rdma/secure"
)

const (
	addressVersion = 3
	nonceSize      = 32
	hostSize       = 16
	maxCandidates  = 12
	maxCandidate   = 64
)

// address is what Endpoint.Address says:
//
//	0         1         2      18   26      58      59     91      92
//	+---------+---------+------+----+-------+-------+------+-------+---------------------+
//	| version | streams | host | id | nonce | cover | peer | count | count x (len, text) |
//	+---------+---------+------+----+-------+-------+------+-------+---------------------+
//
// cover is the Config's; peer is the fingerprint of this process's certificate.
// host tells whether loopback addresses are of use to the reader. The texts
// are "host:port", best first; none: this side only connects.
type address struct {
	streams    int
	host       [hostSize]byte
	id         uint64
	nonce      [nonceSize]byte
	cover      Cover
	peer       secure.Fingerprint
	candidates []string
}

const addressFixed = 2 + hostSize + 8 + nonceSize + 1 + len(secure.Fingerprint{}) + 1

func (a *address) encode() []byte {
	b := make([]byte, 0, 256)
	b = append(b, addressVersion, uint8(a.streams))
	b = append(b, a.host[:]...)
	b = binary.LittleEndian.AppendUint64(b, a.id)
	b = append(b, a.nonce[:]...)
	b = append(b, uint8(a.cover))
	b = append(b, a.peer[:]...)
	b = append(b, uint8(len(a.candidates)))
	for _, c := range a.candidates {
		b = append(b, uint8(len(c)))
		b = append(b, c...)
	}
	return b
}

func decodeAddress(b []byte) (address, error) {
	bad := func(what string) (address, error) {
		return address{}, fmt.Errorf("tcp: peer address of %d bytes: %s: %w; both sides must run the same psrt and transport", len(b), what, rdma.ErrInvalid)
	}
	if len(b) < addressFixed {
		return bad("too short")
	}
	if b[0] != addressVersion {
		return bad(fmt.Sprintf("version %d instead of %d", b[0], addressVersion))
	}
	var a address
	if a.streams = int(b[1]); a.streams < 1 || a.streams > maxStreams {
		return bad(fmt.Sprintf("%d streams", a.streams))
	}
	b = b[2:]
	b = b[copy(a.host[:], b):]
	a.id = binary.LittleEndian.Uint64(b)
	b = b[8:]
	b = b[copy(a.nonce[:], b):]
	if a.cover = Cover(b[0]); a.cover > CoverAll {
		return bad(fmt.Sprintf("cover %d", a.cover))
	}
	b = b[1:]
	b = b[copy(a.peer[:], b):]
	count := int(b[0])
	b = b[1:]
	if count > maxCandidates {
		return bad(fmt.Sprintf("%d candidates, at most %d", count, maxCandidates))
	}
	for range count {
		if len(b) < 1 || int(b[0]) > maxCandidate || int(b[0]) > len(b)-1 {
			return bad("candidate cut off")
		}
		c := string(b[1 : 1+b[0]])
		if _, _, err := net.SplitHostPort(c); err != nil {
			return bad(err.Error())
		}
		a.candidates = append(a.candidates, c)
		b = b[1+len(c):]
	}
	if len(b) != 0 {
		return bad("bytes left over")
	}
	return a, nil
}

// Address is what the peer's Connect needs.
func (ep *endpoint) Address() []byte {
	a := ep.address()
	return a.encode()
}

func (ep *endpoint) address() address {
	ep.dom.mu.Lock()
	l := ep.dom.listener
	ep.dom.mu.Unlock()
	a := address{streams: ep.dom.cfg.Streams, host: hostID(), id: ep.id, nonce: ep.nonce, cover: ep.dom.cfg.Cover, peer: ep.dom.id.Fingerprint()}
	if l != nil {
		a.candidates = candidates(l.Addr())
	}
	return a
}

// candidates are the addresses under which a listener may be reached: its own,
// or, listening on all, those of the interfaces, loopback last.
func candidates(addr net.Addr) []string {
	l, ok := addr.(*net.TCPAddr)
	if u, is := addr.(*net.UDPAddr); is {
		l, ok = &net.TCPAddr{IP: u.IP, Port: u.Port, Zone: u.Zone}, true
	}
	if !ok {
		return []string{addr.String()}
	}
	if !l.IP.IsUnspecified() {
		return []string{l.String()}
	}
	var far, near []string
	addrs, _ := net.InterfaceAddrs() // none: then only peers on this host find us
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() || l.IP.To4() != nil && n.IP.To4() == nil {
			continue
		}
		text := (&net.TCPAddr{IP: n.IP, Port: l.Port}).String()
		if n.IP.IsLoopback() {
			near = append(near, text)
		} else {
			far = append(far, text)
		}
	}
	all := append(far, near...)
	return all[:min(len(all), maxCandidates)]
}

// hostID is equal for two processes exactly when they share a kernel and a
// network namespace, so that loopback means the same to both.
func hostID() [hostSize]byte {
	boot, err1 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/thread-self/ns/net")
	var id [hostSize]byte
	if err1 != nil || err2 != nil {
		_, _ = rand.Read(id[:]) // like nobody else's: loopback is not used
		return id
	}
	sum := sha256.Sum256([]byte(string(boot) + space))
	copy(id[:], sum[:])
	return id
}
