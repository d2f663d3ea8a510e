package belady

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// Trace is what a training run looks up, batch by batch: distinct keys.
type Trace [][]uint64

// maxBatch bounds the keys of a batch in a file.
const maxBatch = 1 << 24

// Write records a trace: for each batch the number of keys, and the keys, all
// as 8 bytes, little-endian.
func (t Trace) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, keys := range t {
		if err := binary.Write(b, binary.LittleEndian, uint64(len(keys))); err != nil {
			return err
		}
		if err := binary.Write(b, binary.LittleEndian, keys); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Read reads what Write has recorded.
func Read(r io.Reader) (Trace, error) {
	b := bufio.NewReader(r)
	var t Trace
	for {
		var n uint64
		err := binary.Read(b, binary.LittleEndian, &n)
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("belady: batch %d: %w", len(t), err)
		}
		if n > maxBatch {
			return nil, fmt.Errorf("belady: batch %d has %d keys, at most %d", len(t), n, maxBatch)
		}
		keys := make([]uint64, 0, min(n, 1<<16))
		for range n {
			var key uint64
			if err := binary.Read(b, binary.LittleEndian, &key); err != nil {
				return nil, fmt.Errorf("belady: batch %d ends after %d of %d keys: %w", len(t), len(keys), n, io.ErrUnexpectedEOF)
			}
			keys = append(keys, key)
		}
		t = append(t, keys)
	}
}

// Warmed puts batches in front in which each key comes once: behind them, from
// batch from on, all rows are there, and a table's index grows no more.
func (t Trace) Warmed(keysEach int) (warmed Trace, from int) {
	seen := map[uint64]bool{}
	var batch []uint64
	for _, keys := range t {
		for _, key := range keys {
			if seen[key] {
				continue
			}
			seen[key] = true
			if batch = append(batch, key); len(batch) == keysEach {
				warmed, batch = append(warmed, batch), nil
			}
		}
	}
	if len(batch) > 0 {
		warmed = append(warmed, batch)
	}
	return append(warmed, t...), len(warmed)
}

// Zipf draws a trace in which key number k is as likely as 1 / (k+1)^skew, as
// features of click logs are; some of the keys are new in each batch.
func Zipf(r *rand.Rand, batches, keysEach, vocabulary int, skew float64) Trace {
	// The sum of 1 / x^skew is inverted as if it were an integral: near enough.
	power := 1 - skew
	top := math.Pow(float64(vocabulary), power)
	var t Trace
	for range batches {
		seen := map[uint64]bool{}
		var keys []uint64
		for len(keys) < keysEach {
			key := uint64(math.Pow(1+r.Float64()*(top-1), 1/power)) - 1
			if !seen[key] {
				seen[key] = true
				keys = append(keys, key*0x9e3779b97f4a7c15)
			}
		}
		t = append(t, keys)
	}
	return t
}
