package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// magic begins every file; record 0 follows at magicBytes.
const (
	magic      = "PSRTAUD\n"
	magicBytes = 16
	// recordHead is before each body: its length u32, and its CRC-32C u32. A length
	// of 0 is the end of what was written.
	recordHead = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// windowBytes is a piece of a file that is mapped at a time. The next one is made
// ready while this one is filled.
const windowBytes = 512 << 10

// windowWithin bounds how long a record waits for the next piece.
const windowWithin = 10 * time.Second

// endBytes is kept free for the End record.
const endBytes = recordHead + fixedBytes

// file is a file that is written. A record's length is stored last, so that what
// a killed process leaves behind are whole records.
type file struct {
	f       *os.File
	limit   int64
	pos     int64 // where the next record goes
	cur     []byte
	next    []byte
	ready   chan window // of the next piece
	asked   bool        // it will come
	scratch []byte
	err     error // why nothing more is taken
	ended   bool
}

type window struct {
	b   []byte
	err error
}

// create makes a file and writes its head. It must not be there yet.
func create(path string, limit int64, h *Header) (*file, error) {
	head, err := headOf(h)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	w := &file{f: f, limit: limit, ready: make(chan window, 1)}
	first := w.open(0)
	if first.err != nil {
		f.Close()
		os.Remove(path)
		return nil, fmt.Errorf("audit: room in %s: %w; give --audit another directory", path, first.err)
	}
	w.cur = first.b
	w.ask(1)
	copy(w.cur, magic)
	w.pos = magicBytes
	w.add(&head)
	return w, w.err
}

// open takes room for the i-th piece, and maps it. A page that cannot be had later
// would be a SIGBUS.
func (w *file) open(i int64) window {
	fd := int(w.f.Fd())
	err := unix.Fallocate(fd, 0, i*windowBytes, windowBytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = w.f.WriteAt(make([]byte, windowBytes), i*windowBytes)
	}
	if err != nil {
		return window{err: err}
	}
	b, err := unix.Mmap(fd, i*windowBytes, windowBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	return window{b, err}
}

// ask has the i-th piece made ready, and spent ones let go.
func (w *file) ask(i int64, spent ...[]byte) {
	w.asked = true
	go func() {
		var err error
		for _, b := range spent {
			err = errors.Join(err, unix.Munmap(b))
		}
		next := w.open(i)
		next.err = errors.Join(err, next.err)
		w.ready <- next
	}()
}

// await is the next piece.
func (w *file) await() error {
	if w.next != nil {
		return nil
	}
	if !w.asked {
		return errors.New("there was none before")
	}
	timer := time.NewTimer(windowWithin)
	defer timer.Stop()
	select {
	case r := <-w.ready:
		w.next, w.asked = r.b, false
		return r.err
	case <-timer.C:
		return fmt.Errorf("the disk made no room within %v", windowWithin)
	}
}

// add appends a record. After an error, which it keeps, it does nothing.
func (w *file) add(r *Record) {
	if w.ended {
		return
	}
	w.scratch = r.encode(append(w.scratch[:0], make([]byte, recordHead)...))
	n := len(w.scratch)
	whole := int64(n+7) &^ 7
	room := windowBytes - w.pos%windowBytes // of this piece
	switch {
	case n > recordHead+MaxRecord:
		w.stop(NoRoom, fmt.Errorf("audit: a %s record of %d bytes, at most %d", r.Kind, n-recordHead, MaxRecord))
		return
	case r.Kind != End && w.pos+whole+endBytes > w.limit:
		w.stop(Full, fmt.Errorf("audit: the record has reached its limit of %d bytes", w.limit))
		return
	case r.Kind != End && whole+endBytes > room:
		if err := w.await(); err != nil {
			w.stop(NoRoom, fmt.Errorf("audit: %s takes no more: %w", w.f.Name(), err))
			return
		}
	}
	le := binary.LittleEndian
	head := uint64(crc32.Checksum(w.scratch[recordHead:], castagnoli))<<32 | uint64(n-recordHead)
	at := w.pos % windowBytes
	k := copy(w.cur[at+recordHead:], w.scratch[recordHead:])
	copy(w.next, w.scratch[recordHead+k:])
	le.PutUint64(w.cur[at:], head)
	w.pos += whole
	if whole >= room {
		w.ask(w.pos/windowBytes+1, w.cur)
		w.cur, w.next = w.next, nil
	}
}

// stop ends the file early.
func (w *file) stop(reason uint8, err error) {
	w.err = err
	w.end(reason)
}

// end writes the last record: there is always room.
func (w *file) end(reason uint8) {
	if !w.ended {
		w.add(&Record{Kind: End, Code: reason, At: time.Now().UnixNano()})
		w.ended = true
	}
}

// close ends the file and gives its unused room back. That the file ended before
// is err's to say.
func (w *file) close() error {
	w.end(Closed)
	if w.asked { // its goroutine ends with the disk's answer
		_ = w.await()
	}
	var err error
	for _, b := range [][]byte{w.cur, w.next} {
		if b != nil {
			err = errors.Join(err, unix.Munmap(b))
		}
	}
	w.cur, w.next = nil, nil
	return errors.Join(err, w.f.Truncate(w.pos), w.f.Close())
}
