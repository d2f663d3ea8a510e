package tcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"psrt/rdma/wire"
)

// Directions of a link, as seen by who opened the connection.
const (
	dialerAsks = iota
	dialerAnswers
)

// hello opens a link; welcome answers it:
//
//	hello    0        8        16      17        18          19   20        24    56
//	        +--------+--------+-------+---------+-----------+----+---------+-----+
//	        | target | dialer | index | streams | direction |sums| timeout | mac |
//	        +--------+--------+-------+---------+-----------+----+---------+-----+
//	welcome  0         4     36
//	        +---------+-----+
//	        | timeout | mac |
//	        +---------+-----+
//
// target and dialer are endpoint ids, timeout the sender's OpTimeout in
// milliseconds. sums is 1 where payloads have a CRC-32C on this link (see summed), else 0.
// hello's mac is keyed with the target's nonce and welcome's,
// which covers the hello too, with the dialer's: each proves that the other
// was given its Address. The nonces themselves never cross this connection,
// and a link is taken once, so a recorded hello is of no use.
type hello struct {
	target, dialer uint64
	index, streams uint8
	direction      uint8
	sums           bool
	timeout        time.Duration
}

const (
	macSize     = sha256.Size
	helloSize   = 24 + macSize
	welcomeSize = 4 + macSize
)

func mac(nonce *[nonceSize]byte, label string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, nonce[:])
	m.Write([]byte(label))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

const (
	helloLabel   = "psrt tcp hello 1\x00"
	welcomeLabel = "psrt tcp welcome 1\x00"
)

func (h *hello) encode(target *[nonceSize]byte) []byte {
	b := make([]byte, 24, helloSize)
	binary.LittleEndian.PutUint64(b, h.target)
	binary.LittleEndian.PutUint64(b[8:], h.dialer)
	b[16], b[17], b[18] = h.index, h.streams, h.direction
	if h.sums {
		b[19] = 1
	}
	binary.LittleEndian.PutUint32(b[20:], millis(h.timeout))
	return append(b, mac(target, helloLabel, b)...)
}

// summed says whether the payloads on a link that this side opens have a CRC-32C: the
// link leaves the host, and nothing else protects its bytes. TCP's own sum misses one
// damaged segment in 65,536.
func summed(c net.Conn) bool {
	_, plain := c.(*net.TCPConn) // neither under TLS nor a Carrier's
	return plain && !sameHost(c)
}

// decodeHello checks the form; proved checks the mac.
func decodeHello(b []byte) (hello, error) {
	if len(b) != helloSize {
		return hello{}, fmt.Errorf("%w: hello of %d bytes instead of %d", wire.ErrFrame, len(b), helloSize)
	}
	h := hello{
		target: binary.LittleEndian.Uint64(b), dialer: binary.LittleEndian.Uint64(b[8:]),
		index: b[16], streams: b[17], direction: b[18], sums: b[19] == 1,
		timeout: fromMillis(binary.LittleEndian.Uint32(b[20:])),
	}
	if h.streams < 1 || h.streams > maxStreams || h.index >= h.streams || h.direction > dialerAnswers || b[19] > 1 {
		return hello{}, fmt.Errorf("%w: hello for link %d of %d, direction %d", wire.ErrFrame, h.index, h.streams, h.direction)
	}
	return h, nil
}

func proved(b []byte, nonce *[nonceSize]byte) bool {
	return hmac.Equal(b[24:], mac(nonce, helloLabel, b[:24]))
}

func encodeWelcome(timeout time.Duration, dialer *[nonceSize]byte, hello []byte) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, welcomeSize), millis(timeout))
	return append(b, mac(dialer, welcomeLabel, b, hello)...)
}

func decodeWelcome(b []byte, nonce *[nonceSize]byte, hello []byte) (time.Duration, error) {
	if len(b) != welcomeSize || !hmac.Equal(b[4:], mac(nonce, welcomeLabel, b[:4], hello)) {
		return 0, fmt.Errorf("%w: the welcome proves nothing: something else listens at the peer's address", wire.ErrFrame)
	}
	return fromMillis(binary.LittleEndian.Uint32(b)), nil
}

func millis(d time.Duration) uint32 { return uint32(max(d/time.Millisecond, 1)) }

func fromMillis(ms uint32) time.Duration {
	return min(max(time.Duration(ms)*time.Millisecond, minOpTimeout), maxOpTimeout)
}
