package fan

import (
	"io"
	"net"
	"time"
)

// listen takes raw streams and throws away what they carry.
func (c *childSide) listen(o order) (a answer, err error) {
	if c.sink, err = net.Listen("tcp", o.Address); err != nil {
		return a, err
	}
	go func() {
		for {
			conn, err := c.sink.Accept()
			if err != nil {
				return
			}
			go func() {
				n, _ := io.Copy(io.Discard, conn)
				_ = n
				conn.Close()
			}()
		}
	}()
	a.Address = c.sink.Addr().String()
	return a, nil
}

// send streams raw bytes for a while: the limit. What the kernel still holds at
// the end is not counted.
func send(o order) (a answer, err error) {
	conn, err := net.Dial("tcp", o.Address)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	b := make([]byte, 256<<10)
	start := time.Now()
	warm, end := start.Add(time.Duration(o.Millis)*time.Millisecond/2), start.Add(time.Duration(o.Millis)*time.Millisecond*3/2)
	var first time.Time
	for {
		n, err := conn.Write(b)
		if err != nil {
			return a, err
		}
		now := time.Now()
		switch {
		case now.Before(warm):
		case first.IsZero():
			first = now
		default:
			a.Bytes += int64(n)
			a.Nanos = int64(now.Sub(first))
		}
		if now.After(end) {
			return a, nil
		}
	}
}
