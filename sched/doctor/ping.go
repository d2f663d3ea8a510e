package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
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
	if !to.Is4() {
		return false, errors.New("doctor: only IPv4 is pinged")
	}
	plain := true // the kernel fills in number and checksum
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
	if err != nil {
		plain = false
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP); err != nil {
			return false, fmt.Errorf("doctor: ping: %w", err)
		}
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(pingWithin))
	err = errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait), unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4()}))
	if err != nil {
		return false, fmt.Errorf("doctor: ping: %w", err)
	}
	msg := make([]byte, icmpHead+n)
	msg[0] = 8 // echo request
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
		binary.BigEndian.PutUint16(msg[2:], checksum(msg))
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
			if isEcho(buf[:got], plain, cookie) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isEcho says whether a packet is the answer.
func isEcho(b []byte, plain bool, cookie uint64) bool {
	if !plain {
		if len(b) < ipHeader || len(b) < int(b[0]&15)*4 {
			return false
		}
		b = b[int(b[0]&15)*4:]
	}
	return len(b) >= icmpHead+8 && b[0] == 0 && binary.BigEndian.Uint64(b[icmpHead:]) == cookie
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
