package extsort

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// maxRuns bounds the merge: each run has a read buffer of readBytes.
const (
	maxRuns   = 4096
	readBytes = 64 << 10
	minMemory = 1 << 20
)

// Config says what is sorted and where.
type Config struct {
	RecordBytes int   // without the number
	Memory      int64 // bytes for records, at least 1 MiB
	Path        string
}

// Sorter belongs to one goroutine.
type Sorter struct {
	cfg     Config
	records []byte
	order   []entry
	limit   int // records in memory
	file    *os.File
	out     *bufio.Writer
	runs    []int64 // records of each run in the file
	len     int64
}

type entry struct {
	number uint64
	at     uint32 // record in records
}

// New makes an empty sorter. Its file is made at cfg.Path when memory is full;
// there must be none.
func New(cfg Config) *Sorter {
	per := int64(cfg.RecordBytes) + 16
	return &Sorter{cfg: cfg, limit: int(min(max(cfg.Memory, minMemory)/per+1, 1<<31))}
}

// Len is the number of records added.
func (s *Sorter) Len() int64 { return s.len }

// Add copies a record.
func (s *Sorter) Add(number uint64, record []byte) error {
	if len(record) != s.cfg.RecordBytes {
		return fmt.Errorf("extsort: a record of %d bytes, want %d", len(record), s.cfg.RecordBytes)
	}
	if len(s.order) == s.limit {
		if err := s.spill(); err != nil {
			return err
		}
	}
	s.order = append(s.order, entry{number, uint32(len(s.order))})
	s.records = append(s.records, record...)
	s.len++
	return nil
}

func (s *Sorter) sort() {
	slices.SortFunc(s.order, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.at, b.at))
	})
}

// spill writes what is in memory as a run.
func (s *Sorter) spill() (err error) {
	if len(s.runs) == maxRuns {
		return fmt.Errorf("extsort: %d runs of %d records are full; give the export more memory", maxRuns, s.limit)
	}
	if s.file == nil {
		if s.file, err = os.OpenFile(s.cfg.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		s.out = bufio.NewWriterSize(s.file, 1<<20)
	}
	s.sort()
	var number [8]byte
	for _, e := range s.order {
		binary.LittleEndian.PutUint64(number[:], e.number)
		_, _ = s.out.Write(number[:]) // Flush tells
		_, _ = s.out.Write(s.record(e))
	}
	s.runs = append(s.runs, int64(len(s.order)))
	s.order, s.records = s.order[:0], s.records[:0]
	return s.out.Flush()
}

func (s *Sorter) record(e entry) []byte {
	n := s.cfg.RecordBytes
	return s.records[int(e.at)*n : int(e.at)*n+n : int(e.at)*n+n]
}

// Each calls f for all records in the order of their numbers. The record is f's
// until it returns.
func (s *Sorter) Each(f func(number uint64, record []byte) error) error {
	if len(s.runs) > 0 {
		return s.merge(f)
	}
	s.sort()
	for i, e := range s.order {
		if i > 0 && s.order[i-1].number == e.number {
			return &DuplicateError{e.number}
		}
		if err := f(e.number, s.record(e)); err != nil {
			return err
		}
	}
	return nil
}

// Close gives memory and file back. Closing again does nothing.
func (s *Sorter) Close() error {
	s.records, s.order = nil, nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if e := os.Remove(s.cfg.Path); err == nil {
		err = e
	}
	return err
}

// DuplicateError is two records with one number.
type DuplicateError struct{ Number uint64 }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("extsort: two records have the number %d", e.Number)
}
