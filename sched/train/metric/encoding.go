package metric

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The binary form: a version byte, a task byte, varints of the three counts,
// the five sums (16 bytes each, little-endian), the number of buckets that
// hold something, and for each the distance from the one before, positives
// and negatives as varints. Empty buckets cost nothing. From version 2 on a regression's counts
// end with the sum of its labels' squares and a varint of those left out. Counts of the task ctr
// are the same in both versions, and have version 1, so that an older psrt reads them.
const (
	ctrVersion        = 1
	regressionVersion = 2
)

// MarshalBinary encodes the counts.
func (a *Accumulator) MarshalBinary() ([]byte, error) {
	version, task := byte(ctrVersion), byte(0)
	if a.task == Regression {
		version, task = regressionVersion, 1
	}
	out := []byte{version, task}
	for _, n := range []uint64{a.examples, a.invalid, a.right} {
		out = binary.AppendUvarint(out, n)
	}
	for _, s := range a.sums() {
		out = binary.LittleEndian.AppendUint64(out, uint64(s.hi))
		out = binary.LittleEndian.AppendUint64(out, s.lo)
	}
	held := 0
	a.scores.each(func(int, counts) { held++ })
	out = binary.AppendUvarint(out, uint64(held))
	before := -1
	a.scores.each(func(bucket int, c counts) {
		out = binary.AppendUvarint(out, uint64(bucket-before))
		out = binary.AppendUvarint(out, c.positives)
		out = binary.AppendUvarint(out, c.negatives)
		before = bucket
	})
	if a.task == Regression {
		out = binary.LittleEndian.AppendUint64(out, uint64(a.labelSquares.hi))
		out = binary.LittleEndian.AppendUint64(out, a.labelSquares.lo)
		out = binary.AppendUvarint(out, a.unsquared)
	}
	return out, nil
}

// UnmarshalBinary replaces the counts by encoded ones.
func (a *Accumulator) UnmarshalBinary(data []byte) error {
	r := reader{data: data}
	version, task := r.byte(), r.byte()
	if r.bad == "" && (version < 1 || version > regressionVersion) {
		return fmt.Errorf("metric: encoded counts have version %d, this build reads 1 to %d", version, regressionVersion)
	}
	if task > 1 {
		r.fail("unknown task")
	}
	b := NewAccumulator([]string{CTR, Regression}[task&1])
	b.examples, b.invalid, b.right = r.varint(), r.varint(), r.varint()
	for _, s := range b.sums() {
		s.hi, s.lo = int64(r.word()), r.word()
	}
	held := r.varint()
	if held > buckets {
		r.fail("more buckets than there are")
	}
	at := -1
	for i := uint64(0); i < held && r.bad == ""; i++ {
		step := r.varint()
		if step == 0 || step > uint64(buckets-1-at) {
			r.fail("bucket out of range")
			break
		}
		at += int(step)
		c := counts{r.varint(), r.varint()}
		if r.bad == "" {
			*b.scores.at(at) = c
		}
	}
	if b.task == Regression {
		if version == 1 {
			b.unsquared = b.examples
		} else {
			b.labelSquares.hi, b.labelSquares.lo, b.unsquared = int64(r.word()), r.word(), r.varint()
		}
	}
	if r.bad == "" && len(r.data) > 0 {
		r.fail("bytes after the end")
	}
	if r.bad != "" {
		return fmt.Errorf("metric: %d bytes of encoded counts: %s", len(data), r.bad)
	}
	*a = *b
	return nil
}

// MarshalJSON encodes the counts as one base64 string.
func (a *Accumulator) MarshalJSON() ([]byte, error) {
	data, err := a.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(data))
}

// UnmarshalJSON replaces the counts by encoded ones.
func (a *Accumulator) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("metric: encoded counts: %w", err)
	}
	return a.UnmarshalBinary(data)
}

// reader cuts values off its data; the first failure stays in bad.
type reader struct {
	data []byte
	bad  string
}

func (r *reader) fail(why string) {
	if r.bad == "" {
		r.bad = why
	}
}

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		r.fail("truncated")
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

func (r *reader) varint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.fail("truncated or overlong number")
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) word() uint64 {
	if len(r.data) < 8 {
		r.fail("truncated")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.data)
	r.data = r.data[8:]
	return v
}
