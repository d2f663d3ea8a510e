package allreduce

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"psrt/csrc/fold"
)

// limit is what the machine does by itself: within a host a copy of the vector by
// every rank at once, which moves as many bytes as an all-reduce of two; over tcp
// plain streams around the ring, of as many bytes as any all-reduce must send.
type limit struct {
	to, from net.Conn
	sent     chan error
}

// open dials the next rank and is dialled by the one before.
func (l *limit) open(listener net.Listener, next string) error {
	type got struct {
		c   net.Conn
		err error
	}
	accepted := make(chan got, 1)
	go func() {
		c, err := listener.Accept()
		accepted <- got{c, err}
	}()
	var err error
	if l.to, err = net.DialTimeout("tcp", next, patience); err != nil {
		return err
	}
	g := <-accepted
	l.from, l.sent = g.c, make(chan error, 1)
	return g.err
}

func (l *limit) close() error {
	var errs []error
	for _, c := range []net.Conn{l.to, l.from} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

func (l *limit) play(r *rank, send, recv []byte) error {
	if l.to == nil {
		j := fold.Job{Type: fold.U8, Past: len(send) >= 16<<20}
		j.Run([][]byte{recv}, [][]byte{send})
		return nil
	}
	n := len(send) * 2 * (r.set.Size - 1) / r.set.Size
	deadline := time.Now().Add(patience)
	if err := errors.Join(l.to.SetDeadline(deadline), l.from.SetDeadline(deadline)); err != nil {
		return err
	}
	go func() {
		for left := n; left > 0; {
			k, err := l.to.Write(send[:min(left, len(send))])
			if left -= k; err != nil {
				l.sent <- err
				return
			}
		}
		l.sent <- nil
	}()
	for left := n; left > 0; {
		k := min(left, len(recv))
		if _, err := io.ReadFull(l.from, recv[:k]); err != nil {
			return fmt.Errorf("allreduce: limit: %w", err)
		}
		left -= k
	}
	return <-l.sent
}
