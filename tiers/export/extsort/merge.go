package extsort

import (
	"bufio"
	"encoding/binary"
	"io"
)

// run is one sorted stretch of the file, being read.
type run struct {
	in     *bufio.Reader
	left   int64 // records behind this one
	number uint64
	record []byte // number and record as in the file
}

// next reads the run's next record; false at its end.
func (r *run) next() (bool, error) {
	if r.left == 0 {
		return false, nil
	}
	r.left--
	if _, err := io.ReadFull(r.in, r.record); err != nil {
		return false, err
	}
	r.number = binary.LittleEndian.Uint64(r.record)
	return true, nil
}

// merge reads all runs at once. heap[0] has the smallest number.
func (s *Sorter) merge(f func(uint64, []byte) error) error {
	if len(s.order) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	// Records now come from the file: its read buffers take their memory's place.
	s.order, s.records = nil, nil
	size := int64(8 + s.cfg.RecordBytes)
	var heap []*run
	at := int64(0)
	for _, n := range s.runs {
		r := &run{left: n, record: make([]byte, size)}
		r.in = bufio.NewReaderSize(io.NewSectionReader(s.file, at, n*size), readBytes)
		at += n * size
		if _, err := r.next(); err != nil {
			return err
		}
		heap = append(heap, r)
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		down(heap, i)
	}
	for first, last := true, uint64(0); len(heap) > 0; first = false {
		r := heap[0]
		if !first && r.number == last {
			return &DuplicateError{last}
		}
		last = r.number
		if err := f(r.number, r.record[8:]); err != nil {
			return err
		}
		more, err := r.next()
		if err != nil {
			return err
		}
		if !more {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		down(heap, 0)
	}
	return nil
}

// down moves heap[i] below smaller ones.
func down(heap []*run, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1].number < heap[child].number {
			child++
		}
		if heap[i].number <= heap[child].number {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
