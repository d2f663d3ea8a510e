package ckpt

import (
	"io"

	"psrt/tiers/ckpt/files"
)

// readAheadDepth reads are under way for each part being read: the disk, or
// the store, works while blocks are checked and decoded. It bounds memory, too:
// depth x Chunk for each worker.
const readAheadDepth = 4

// readAhead is the bytes of a file from one place to another, in order.
type readAhead struct {
	r         files.Reader
	at, end   int64 // of what has not been asked for
	chunk     int64
	flights   []chan flight // in order of place; at most readAheadDepth
	now, keep []byte        // what is left of the oldest buffer; the buffer
	err       error
}

type flight struct {
	b   []byte
	err error
}

func newReadAhead(r files.Reader, at, end int64) *readAhead {
	a := &readAhead{r: r, at: at, end: end, chunk: int64(r.Chunk())}
	for range readAheadDepth {
		a.ask(nil)
	}
	return a
}

// ask begins the next read, into buf if it is large enough.
func (a *readAhead) ask(buf []byte) {
	n := min(a.chunk, a.end-a.at)
	if n <= 0 {
		return
	}
	if int64(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	c, at, r := make(chan flight, 1), a.at, a.r
	go func() {
		k, err := r.ReadAt(buf, at)
		if err == io.EOF && k == len(buf) {
			err = nil
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		c <- flight{buf[:k], err}
	}()
	a.at += n
	a.flights = append(a.flights, c)
}

func (a *readAhead) Read(p []byte) (int, error) {
	for len(a.now) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		if a.keep != nil {
			a.ask(a.keep)
			a.keep = nil
		}
		if len(a.flights) == 0 {
			return 0, io.EOF
		}
		f := <-a.flights[0]
		a.flights = a.flights[1:]
		a.now, a.keep, a.err = f.b, f.b, f.err
	}
	n := copy(p, a.now)
	a.now = a.now[n:]
	return n, nil
}

// take is the next n bytes where they lie, until the next call of take or Read;
// nil if they are not all in one place.
func (a *readAhead) take(n int) []byte {
	if n == 0 || n > len(a.now) {
		return nil
	}
	b := a.now[:n:n]
	a.now = a.now[n:]
	return b
}

// stop waits for reads under way, which use the file.
func (a *readAhead) stop() {
	for _, c := range a.flights {
		<-c
	}
	a.flights, a.err = nil, io.ErrClosedPipe
}
