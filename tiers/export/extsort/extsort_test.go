package extsort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"psrt/csrc/seedtest"
)

func fill(t *testing.T, s *Sorter, numbers []uint64, size int) {
	t.Helper()
	record := make([]byte, size)
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(record, n*3)
		if err := s.Add(n, record); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSorts holds the sorter to slices.Sort, in memory and with many runs.
func TestSorts(t *testing.T) {
	rng := seedtest.Rand(t)
	for _, n := range []int{0, 1, 1000, 60_000} { // a run takes 8739 records of 104 bytes
		path := filepath.Join(t.TempDir(), "spill")
		s := New(Config{RecordBytes: 104, Path: path})
		seen := map[uint64]bool{0: true, math.MaxUint64: true}
		for len(seen) < n {
			seen[rng.Uint64()>>uint(rng.IntN(40))] = true
		}
		var numbers []uint64
		for k := range seen {
			if len(numbers) < n {
				numbers = append(numbers, k)
			}
		}
		fill(t, s, numbers, 104)
		slices.Sort(numbers)
		for range 2 {
			var got []uint64
			err := s.Each(func(number uint64, record []byte) error {
				if len(record) != 104 || binary.LittleEndian.Uint64(record) != number*3 {
					return fmt.Errorf("record of %d is %v", number, record)
				}
				got = append(got, number)
				return nil
			})
			if err != nil || !slices.Equal(got, numbers) || s.Len() != int64(n) {
				t.Fatalf("%d records came back as %d, error %v", n, len(got), err)
			}
		}
		if _, err := os.Stat(path); (err == nil) != (n > 8739) {
			t.Errorf("%d records: spill file: %v", n, err)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the spill file is left")
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, n := range []int{10, 20_000} {
		numbers := make([]uint64, n)
		for i := range numbers {
			numbers[i] = uint64(i)
		}
		numbers[n-1] = 5
		s := New(Config{RecordBytes: 104, Path: filepath.Join(t.TempDir(), "spill")})
		fill(t, s, numbers, 104)
		var dup *DuplicateError
		if err := s.Each(func(uint64, []byte) error { return nil }); !errors.As(err, &dup) || dup.Number != 5 {
			t.Errorf("%d records with one twice: %v", n, err)
		}
		stop := errors.New("enough")
		if err := s.Each(func(uint64, []byte) error { return stop }); err != stop {
			t.Errorf("the callback's error came back as %v", err)
		}
		if s.Add(1, make([]byte, 8)) == nil {
			t.Error("a short record is accepted")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := New(Config{RecordBytes: 1 << 20, Path: filepath.Join(t.TempDir(), "no", "such", "dir")})
	record := make([]byte, 1<<20)
	if err := errors.Join(s.Add(1, record), s.Add(2, record)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that cannot be made: %v", err)
	}
}
