package server

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"psrt/rdma"
	"psrt/rdma/dial"
)

// seen is what the watch knows of a session. The lane adds; all else is written
// before the watch has it.
type seen struct {
	bytes, messages atomic.Uint64
	over            atomic.Bool

	worker    int
	kernel    bool // a meter in the kernel can count it: by peers and ports, or by device and queuePair
	inter     string
	peer      netip.AddrPort   // port 0
	peers     []netip.AddrPort // of its connections
	ports     []uint16         // ours, that they go to
	device    string           // of soft-RoCE
	queuePair uint32
	pairs     []uint32 // all of its, where kernel is set by device

	// The watch's own.
	base     uint64 // bytes that the kernel has counted before it was given up
	lastLook int    // since over
}

func (s *seen) add(bytes, messages int) {
	if s != nil {
		s.bytes.Add(uint64(bytes))
		s.messages.Add(uint64(messages))
	}
}

func (s *seen) end() {
	if s != nil {
		s.over.Store(true)
	}
}

// describe says where a session's bytes come from. number tells it from others
// where it has no queue pair.
func describe(s *seen, conn *dial.Conn, i int, number uint32) {
	s.inter, s.queuePair = device(conn.Domains[i]), number
	if a, ok := conn.Control.RemoteAddr().(*net.TCPAddr); ok {
		s.peer = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), 0)
	}
	if q, ok := conn.Endpoints[i].(interface{ QueuePair() uint32 }); ok {
		s.queuePair = q.QueuePair()
	}
	s.counted(conn.Endpoints[i], conn.Domains[i].Caps())
	if twin := conn.Twin(i); twin != nil {
		s.counted(twin, conn.Domains[i].Caps())
	}
}

// counted notes what the kernel can tell an endpoint by.
func (s *seen) counted(ep rdma.Endpoint, c rdma.Caps) {
	if q, ok := ep.(interface{ QueuePair() uint32 }); ok {
		if softRoCE(c.Device) {
			s.kernel, s.device, s.pairs = true, c.Device, append(s.pairs, q.QueuePair())
		}
	}
	if p, ok := ep.(interface{ Connections() [][2]netip.AddrPort }); ok && c.Transport == "tcp" {
		s.kernel = true
		for _, c := range p.Connections() {
			s.ports, s.peers = append(s.ports, c[0].Port()), append(s.peers, c[1])
		}
	}
}

// softRoCE says whether a device is the kernel's: only its driver names the
// interface under it.
func softRoCE(device string) bool {
	if device == "" || strings.ContainsRune(device, '/') {
		return false
	}
	_, err := os.Stat("/sys/class/infiniband/" + device + "/parent")
	return err == nil
}
