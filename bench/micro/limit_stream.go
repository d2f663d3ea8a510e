package micro

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"psrt/rdma/quic"
	"psrt/rdma/secure"
)

// raw is a bare stream between the two processes, of the kind that the
// transport's bytes travel in: its rate is the limit.
type raw interface {
	read(b []byte) error
	write(b []byte) error
	close() error
	pieces() []byte // pieceBytes of memory
}

// rawDoor waits for the other process's end of the stream.
type rawDoor struct {
	transport string
	listener  net.Listener
	identity  *secure.Identity
	carrier   *quic.Carrier // of a QUIC stream
}

const limitProtocol = "psbench-limit"

func rawListen(transport string) (d *rawDoor, err error) {
	d = &rawDoor{transport: transport}
	switch transport {
	case "quic":
		if d.carrier, err = quic.New(); err != nil {
			return nil, err
		}
		d.identity = d.carrier.Identity()
		d.listener, err = d.carrier.Listen("127.0.0.1:0")
	case "tls":
		if d.identity, err = secure.NewIdentity(); err != nil {
			return nil, err
		}
		fallthrough
	default:
		d.listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	}
	return d, err
}

// fingerprint is for the dialer.
func (d *rawDoor) fingerprint() (f secure.Fingerprint) {
	if d.identity != nil {
		f = d.identity.Fingerprint()
	}
	return f
}

// accept takes the one connection that knows the nonce.
func (d *rawDoor) accept(nonce uint64, stop func() bool) (raw, error) {
	fail := func(err error) (raw, error) { return nil, fmt.Errorf("micro: raw %s: %w", d.transport, err) }
	type accepted struct {
		c   net.Conn
		err error
	}
	came := make(chan accepted, 1)
	go func() {
		c, err := d.listener.Accept()
		came <- accepted{c, err}
	}()
	var a accepted
	select {
	case a = <-came:
	case <-time.After(stall):
		_ = d.listener.Close()
		return fail(errors.New("nobody connects"))
	}
	if d.carrier == nil {
		_ = d.listener.Close()
	}
	if a.err != nil {
		return fail(a.err)
	}
	c := a.c
	err := c.SetDeadline(time.Now().Add(stall))
	if d.transport == "tls" {
		c = tls.Server(c, d.identity.ServerConfig(limitProtocol))
	}
	var b [8]byte
	if err == nil {
		_, err = io.ReadFull(c, b[:])
	}
	if err == nil && binary.LittleEndian.Uint64(b[:]) != nonce {
		err = errors.New("connected by a stranger; try again")
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close()
		return fail(err)
	}
	return newRaw(c, d.carrier, stop)
}

func rawDial(transport, address string, peer secure.Fingerprint, nonce uint64, stop func() bool) (raw, error) {
	fail := func(err error) (raw, error) { return nil, fmt.Errorf("micro: raw %s: %w", transport, err) }
	ctx, cancel := context.WithTimeout(context.Background(), stall)
	defer cancel()
	var c net.Conn
	var carrier *quic.Carrier
	var err error
	if transport == "quic" {
		if carrier, err = quic.New(); err != nil {
			return fail(err)
		}
		c, err = carrier.Dial(ctx, address, peer)
	} else {
		var d net.Dialer
		c, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		if carrier != nil {
			_ = carrier.Close()
		}
		return fail(err)
	}
	if transport == "tls" {
		c = tls.Client(c, secure.ClientConfig(peer, limitProtocol))
	}
	if _, err = c.Write(binary.LittleEndian.AppendUint64(nil, nonce)); err != nil {
		_ = c.Close()
		return fail(err)
	}
	return newRaw(c, carrier, stop)
}

func newRaw(c net.Conn, carrier *quic.Carrier, stop func() bool) (raw, error) {
	if t, ok := c.(*net.TCPConn); ok {
		return newRawSocket(t, stop)
	}
	return &rawStream{c, carrier, make([]byte, pieceBytes), stop}, nil
}

// rawStream is a stream that Go code makes of packets or records.
type rawStream struct {
	c       net.Conn
	carrier *quic.Carrier
	piece   []byte
	stop    func() bool
}

func (r *rawStream) pieces() []byte { return r.piece }

func (r *rawStream) close() error {
	err := r.c.Close()
	if r.carrier != nil {
		err = errors.Join(err, r.carrier.Close())
	}
	return err
}

func (r *rawStream) read(b []byte) error {
	err := r.c.SetReadDeadline(time.Now().Add(stall))
	if err == nil {
		_, err = io.ReadFull(r.c, b)
	}
	return err
}

func (r *rawStream) write(b []byte) error {
	err := r.c.SetWriteDeadline(time.Now().Add(stall))
	if err == nil {
		_, err = r.c.Write(b)
	}
	return err
}
