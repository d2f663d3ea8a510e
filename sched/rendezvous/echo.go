package rendezvous

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

// echo answers datagrams of other ranks, where the job's data go by such: a firewall may let
// TCP pass and drop UDP.
//
// A question is a nonce of nonceBytes and its proof by the job's token; the answer is another
// proof of the same nonce. It is shorter than the question, and a stranger gets none.
type echo struct {
	rank  int
	token []byte
	conn  net.PacketConn
	all   sync.WaitGroup
}

const (
	nonceBytes    = 16
	questionBytes = nonceBytes + sha256.Size
	// echoAgain is after how long a question is sent again: datagrams may be lost.
	echoAgain = 100 * time.Millisecond
)

// listenEcho opens the echo on all interfaces, or at the host of listen.
func listenEcho(rank int, listen string, token []byte) (*echo, error) {
	host, err := listenHost(listen)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("rendezvous: %w", err)
	}
	e := &echo{rank: rank, token: token, conn: conn}
	e.all.Go(e.serve)
	return e, nil
}

func (e *echo) port() int { return e.conn.LocalAddr().(*net.UDPAddr).Port }

func (e *echo) serve() {
	var b [questionBytes + 1]byte
	for {
		n, from, err := e.conn.ReadFrom(b[:])
		if err != nil {
			return // closed
		}
		nonce := b[:nonceBytes]
		if n == questionBytes && hmac.Equal(b[nonceBytes:n], echoProof(e.token, "question", e.rank, nonce)) {
			_, _ = e.conn.WriteTo(echoProof(e.token, "answer", e.rank, nonce), from) // who asks asks again
		}
	}
}

func (e *echo) close() {
	_ = e.conn.Close()
	e.all.Wait()
}

// echoProof says of a nonce who means it: a rank, asked or answering.
func echoProof(token []byte, what string, rank int, nonce []byte) []byte {
	m := hmac.New(sha256.New, token)
	_, _ = m.Write([]byte("psrt echo " + what + " " + strconv.Itoa(rank) + " "))
	_, _ = m.Write(nonce)
	return m.Sum(nil)
}

// askByDatagram asks the echo at addr until it answers. ctx must have a deadline.
func askByDatagram(ctx context.Context, addr string, rank int, token []byte) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	question := make([]byte, nonceBytes, questionBytes)
	if _, err := rand.Read(question); err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	want := echoProof(token, "answer", rank, question)
	question = append(question, echoProof(token, "question", rank, question)...)
	last := errors.New("no answer")
	var b [sha256.Size + 1]byte
	for ctx.Err() == nil {
		if _, err := conn.Write(question); err != nil {
			last = err
		}
		next := time.Now().Add(echoAgain)
		_ = conn.SetReadDeadline(next)
		n, err := conn.Read(b[:])
		var timeout net.Error
		switch {
		case err == nil && hmac.Equal(b[:n], want):
			return nil
		case err != nil && !(errors.As(err, &timeout) && timeout.Timeout()):
			last = err // refused, for example
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
	return fmt.Errorf("tcp connects, datagrams (udp) do not pass: %s; open udp in the firewall between, or use --transport tcp", plain(last))
}
