package doctor

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	ipHeader  = 20 // of IPv4, without options
	ip6Header = 40
	tcpHeader = 20
	stampsLen = 12 // of TCP's timestamps
	icmpHead  = 8
	smallPing = 56
)

// packets says whether packets of this side's size get there: a switch or a peer
// with a smaller MTU drops them, and connections hang that have begun well.
func (x *examiner) packets(p Peer, from, to netip.Addr, conn net.Conn) []Finding {
	name := interfaceOf(from)
	i, err := net.InterfaceByName(name)
	if err != nil || to.IsLoopback() || from == to {
		return nil
	}
	f := Finding{Name: "packets", Peer: p.called(), State: OK, Asked: true, Figure: fmt.Sprintf("of %d bytes, the MTU of %s, get there", i.MTU, name)}
	mismatch := func(got int, whose string) []Finding {
		f.State = Warn
		f.Figure = fmt.Sprintf("MTU mismatch: %s here has %d, %s %d", name, i.MTU, whose, got)
		f.Mend = fmt.Sprintf("the same MTU everywhere: ip link set dev %s mtu %d here, or %d there and at the switch ports between", name, got, i.MTU)
		return []Finding{f}
	}
	header := ipHeader
	if to.Is6() {
		header = ip6Header
	}
	if theirs := peerMTU(conn, header, i.MTU); theirs > 0 {
		return mismatch(theirs, "the peer")
	}
	if alive, err := ping(x.ctx, to, smallPing); err != nil || !alive {
		return nil // pings are forbidden here, there or between
	}
	full := i.MTU - header - icmpHead
	if through, err := ping(x.ctx, to, full); err != nil || through {
		if err != nil {
			return nil
		}
		return []Finding{f}
	}
	// The largest that gets through, within a jumbo frame's last bits.
	low, high := smallPing, full
	for high-low > 8 && x.ctx.Err() == nil {
		mid := (low + high) / 2
		if through, err := ping(x.ctx, to, mid); err == nil && through {
			low = mid
		} else {
			high = mid
		}
	}
	return mismatch(low+header+icmpHead, "on the way to the peer packets get through up to about")
}

// peerMTU is what a connection's largest segment tells of the other side's MTU, 0
// where it tells nothing, or that it is no smaller. header is IP's.
func peerMTU(conn net.Conn, header, own int) int {
	t, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return 0
	}
	mtu := 0
	_ = raw.Control(func(fd uintptr) { mtu = segment(int(fd), header) }) // else it tells nothing
	if mtu >= own {
		return 0
	}
	return mtu
}

func segment(fd, header int) int {
	info, err := unix.GetsockoptTCPInfo(fd, syscall.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Snd_mss == 0 {
		return 0
	}
	n := int(info.Snd_mss) + header + tcpHeader
	if info.Options&1 != 0 { // TCPI_OPT_TIMESTAMPS
		n += stampsLen
	}
	return n
}
