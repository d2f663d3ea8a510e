package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"

	"psrt/sched/psmsg"
)

// record is a file of what a lane was asked: for each pull of a step of training
// the number of keys, and the keys, all as 8 bytes, little-endian. It is for
// simulators (bench/belady), and waits for the disk that it is on.
type record struct {
	f *os.File
	w *bufio.Writer
}

// openRecord makes the file.
func openRecord(path string) (*record, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("server: a record of lookups: %w", err)
	}
	return &record{f: f, w: bufio.NewWriterSize(f, 1<<20)}, nil
}

// note records a pull, before it is looked up.
func (s *storage) note(r *request) {
	if s == nil || s.record == nil || r.Flags&psmsg.FlagNoClock != 0 {
		return
	}
	c := s.record
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(len(r.keys)))
	_, _ = c.w.Write(b[:]) // an error stays, and close gives it
	for _, key := range r.keys {
		binary.LittleEndian.PutUint64(b[:], key)
		_, _ = c.w.Write(b[:])
	}
}

func (c *record) close() error {
	if c == nil {
		return nil
	}
	err := c.w.Flush()
	if e := c.f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return fmt.Errorf("server: the record of lookups: %w", err)
	}
	return nil
}
