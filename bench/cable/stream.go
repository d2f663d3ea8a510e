package cable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The link itself: one plain TCP stream towards its receiver, counted there. Its first
// part, in which congestion control finds the rate, does not count.
const (
	streamPiece = 256 << 10
	streamWarm  = 200 * time.Millisecond
	streamTries = 4
	// streamPrompt is for a read in which this process had a core all the time.
	streamPrompt = 2 * time.Millisecond
)

// counted is what the receiver of a stream says at its end.
type counted struct{ Bytes, Nanos int64 }

// ServeStreams answers one stream after the other until l is closed.
func ServeStreams(l net.Listener) {
	b := make([]byte, streamPiece)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		_ = json.NewEncoder(c).Encode(count(c, b)) // a sender that is gone hears nothing
		_ = c.Close()
	}
}

func count(r io.Reader, b []byte) (c counted) {
	var first, begin, last time.Time
	for {
		asked := time.Now()
		n, err := r.Read(b)
		switch now := time.Now(); {
		case n == 0:
		case first.IsZero():
			first = now
		case begin.IsZero():
			// What has piled up while this process had no core is not of the time from here on:
			// it begins with a read that took all and no time, if one comes soon.
			all := n < len(b) && now.Sub(asked) < streamPrompt
			if warm := now.Sub(first); warm >= 2*streamWarm || warm >= streamWarm && all {
				begin = now
			}
		default:
			c.Bytes += int64(n)
			last = now
		}
		if err != nil {
			if c.Bytes > 0 {
				c.Nanos = int64(last.Sub(begin))
			}
			return c
		}
	}
}

// Stream sends for so long after the warm-up and returns the rate in bytes/s. On a
// machine so busy that its receiver saw nothing of it, it takes longer, some times.
func Stream(address string, d time.Duration) (rate float64, err error) {
	for tries := 0; rate == 0 && err == nil; tries++ {
		if tries == streamTries {
			return 0, fmt.Errorf("the link itself: nothing arrived in %v after the first %v; a faster --rate, or a longer run", d, streamWarm)
		}
		if rate, err = stream(address, d<<tries); err != nil {
			err = fmt.Errorf("the link itself: %w", err)
		}
	}
	return rate, err
}

// stream returns 0 where nothing came after the warm-up.
func stream(address string, d time.Duration) (float64, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	b := make([]byte, streamPiece)
	for start := time.Now(); time.Since(start) < streamWarm+d; {
		if _, err := conn.Write(b); err != nil {
			return 0, err
		}
	}
	var c counted
	if err := errors.Join(conn.(*net.TCPConn).CloseWrite(), json.NewDecoder(conn).Decode(&c)); err != nil || c.Nanos <= 0 {
		return 0, err
	}
	return float64(c.Bytes) / float64(c.Nanos) * 1e9, nil
}
