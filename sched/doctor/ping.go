package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// pingWithin bounds an echo; pingTries of them are lost before a peer is silent.
const (
	pingWithin = 200 * time.Millisecond
	pingTries  = 2
)

// ping sends an ICMP echo of n bytes that must not be cut on the way, and says
// whether it came back. An error: this user or machine may not.
func ping(ctx context.Context, to netip.Addr, n int) (bool, error) {
	fd, plain, err := echoSocket(to)
	if err != nil {
		return false, fmt.Errorf("doctor: ping: %w", err)
	}
	defer unix.Close(fd)
	request, reply := byte(icmpRequest), byte(icmpReply)
	if to.Is6() {
		request, reply = icmp6Request, icmp6Reply
	}
	msg := make([]byte, icmpHead+n)
	msg[0] = request
	cookie := rand.Uint64()
	binary.BigEndian.PutUint16(msg[4:], uint16(cookie>>48))
	if n >= 8 {
		binary.BigEndian.PutUint64(msg[icmpHead:], cookie)
	}
	buf := make([]byte, len(msg)+64)
	for try := range pingTries {
		if ctx.Err() != nil {
			return false, nil
		}
		binary.BigEndian.PutUint16(msg[6:], uint16(try))
		binary.BigEndian.PutUint16(msg[2:], 0)
		if to.Is4() {
			binary.BigEndian.PutUint16(msg[2:], checksum(msg))
		}
		if _, err := unix.Write(fd, msg); errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ECONNREFUSED) {
			return false, nil
		} else if err != nil {
			return false, fmt.Errorf("doctor: ping: %w", err)
		}
		for end := time.Now().Add(pingWithin); time.Now().Before(end); {
			got, err := unix.Read(fd, buf)
			if err != nil {
				break // not in time, or an answer that says no
			}
			if isEcho(buf[:got], reply, plain, cookie) {
				return true, nil
			}
		}
	}
	return false, nil
}

// Types of echoes. Those of IPv6 get their checksum, which has addresses in it, from the kernel.
const (
	icmpRequest  = 8
	icmpReply    = 0
	icmp6Request = 128
	icmp6Reply   = 129
)

// echoSocket is connected to a peer, and sends nothing that is cut on the way. plain:
// what is read has no IP header, which IPv6 never has.
func echoSocket(to netip.Addr) (fd int, plain bool, err error) {
	family, protocol, level, discover, probe := unix.AF_INET, unix.IPPROTO_ICMP, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE
	if to.Is6() {
		family, protocol, level, discover, probe = unix.AF_INET6, unix.IPPROTO_ICMPV6, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE
	}
	plain = true // the kernel fills in number and checksum
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol); err != nil {
		plain = to.Is6()
		if fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol); err != nil {
			return -1, false, err
		}
	}
	var peer unix.Sockaddr
	if to.Is6() {
		peer = &unix.SockaddrInet6{Addr: to.As16(), ZoneId: zoneOf(to)}
	} else {
		peer = &unix.SockaddrInet4{Addr: to.As4()}
	}
	wait := unix.NsecToTimeval(int64(pingWithin))
	err = errors.Join(unix.SetsockoptInt(fd, level, discover, probe), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait), unix.Connect(fd, peer))
	if err != nil {
		_ = unix.Close(fd) // it says nothing that err does not
		return -1, false, err
	}
	return fd, plain, nil
}

// zoneOf is the number of the interface that a link-local address names.
func zoneOf(a netip.Addr) uint32 {
	if n, err := strconv.ParseUint(a.Zone(), 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(a.Zone()); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// isEcho says whether a packet is the answer.
func isEcho(b []byte, reply byte, plain bool, cookie uint64) bool {
	if !plain {
		if len(b) < ipHeader || len(b) < int(b[0]&15)*4 {
			return false
		}
		b = b[int(b[0]&15)*4:]
	}
	return len(b) >= icmpHead+8 && b[0] == reply && binary.BigEndian.Uint64(b[icmpHead:]) == cookie
}

// checksum is the internet's.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
