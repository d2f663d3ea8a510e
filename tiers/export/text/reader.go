package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"psrt/tiers/export/outdir"
)

// maxLine bounds a line: the largest block a model can hold, 16 Mi floats, is
// well below. Memory grows with what is there, not with the bound.
const maxLine = 1 << 29

// Reader reads one file. It belongs to one goroutine.
type Reader struct {
	Header
	// Edited is known after the last row: the file's last line has no checksum.
	Edited bool

	path   string
	in     *bufio.Reader
	line   []byte
	number int    // of line, from 1
	crc    uint32 // of all lines so far
	rows   int64
}

// NewReader reads the header; path is for errors.
func NewReader(r io.Reader, path string) (*Reader, error) {
	in := &Reader{path: path, in: bufio.NewReaderSize(r, 1<<16)}
	first, err := in.next()
	if err != nil {
		return nil, err
	}
	version, ok := bytes.CutPrefix(first, []byte(magic))
	if !ok {
		return nil, outdir.Corrupt(path, "its first line is not %s%d: psrt did not export it as text", magic, Format)
	}
	if v, err := strconv.Atoi(string(version)); err != nil || v < 1 || v > Format {
		return nil, outdir.Corrupt(path, "it has format %.20q, this psrt reads 1 to %d; use a newer psrt", version, Format)
	}
	description, err := in.next()
	if err != nil {
		return nil, err
	}
	if len(description) < 2 || description[0] != '#' {
		return nil, in.bad("the header is missing")
	}
	if err := json.Unmarshal(description[1:], &in.Header); err != nil {
		return nil, in.bad("the header: %v", err)
	}
	if err := in.validate(); err != nil {
		return nil, in.bad("%v", err)
	}
	return in, nil
}

func (r *Reader) bad(format string, args ...any) error {
	return outdir.Corrupt(fmt.Sprintf("%s:%d", r.path, r.number), format, args...)
}

// next is the next line without its end, good until the next call.
func (r *Reader) next() ([]byte, error) {
	r.line = r.line[:0]
	r.number++
	for {
		part, err := r.in.ReadSlice('\n')
		r.line = append(r.line, part...)
		switch {
		case err == nil:
			r.crc = crc32.Update(r.crc, castagnoli, r.line)
			return r.line[:len(r.line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull) && len(r.line) < maxLine:
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, r.bad("a line of more than %d bytes", maxLine)
		case errors.Is(err, io.EOF):
			return nil, r.bad("the file ends here, without the line %s: it was cut short", endMark)
		default:
			return nil, outdir.Explain("reading", r.path, err)
		}
	}
}

// data calls f for the lines that are neither comment nor end.
func (r *Reader) data(f func(line []byte) error) error {
	for {
		before := r.crc
		line, err := r.next()
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(endMark)) {
			r.crc = before
			return r.end(line)
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		if line[len(line)-1] == '\r' { // an editor's
			line = line[:len(line)-1]
		}
		r.rows++
		if err := f(line); err != nil {
			return err
		}
	}
}

// end compares the last line with what was read.
func (r *Reader) end(line []byte) error {
	words := bytes.Fields(line)
	r.Edited = len(words) == 1
	switch {
	case string(words[0]) != endMark || len(words) == 2 || len(words) > 3:
		return r.bad("the last line is %.40q", line)
	case !r.Edited && (string(words[1]) != strconv.FormatInt(r.rows, 10) || string(words[2]) != fmt.Sprintf("%08x", r.crc)):
		return r.bad("there are %d rows with CRC-32C %08x, the last line says %s; if the file was edited on purpose, shorten that line to %s",
			r.rows, r.crc, line[len(endMark)+1:], endMark)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		r.number++
		return r.bad("something follows the line %s", endMark)
	}
	return nil
}

// parse appends all columns of line to v.
func (r *Reader) parse(v []float32, line []byte) ([]float32, error) {
	for len(line) > 0 {
		var word []byte
		word, line, _ = bytes.Cut(line, []byte{'\t'})
		f, err := parseFloat(word)
		if err != nil {
			return nil, r.bad("column %d: %v", len(v)+2, err)
		}
		v = append(v, f)
	}
	return v, nil
}

// Rows calls f for every row of a table. row is f's until it returns.
func (r *Reader) Rows(f func(key uint64, row []float32) error) error {
	var row []float32
	return r.data(func(line []byte) error {
		word, rest, _ := bytes.Cut(line, []byte{'\t'})
		key, err := strconv.ParseUint(string(word), 10, 64)
		if err != nil {
			return r.bad("%.30q is not a key: a number from 0 to 2^64-1", word)
		}
		if row, err = r.parse(row[:0], rest); err != nil {
			return err
		}
		if len(row) != r.floats() {
			return r.bad("a row of %d numbers behind the key, want %d", len(row), r.floats())
		}
		return f(key, row)
	})
}

// Blocks calls f for every block of a dense vector. values and state are f's
// until it returns.
func (r *Reader) Blocks(f func(first int64, values, state []float32) error) error {
	var v []float32
	return r.data(func(line []byte) error {
		word, rest, _ := bytes.Cut(line, []byte{'\t'})
		first, err := strconv.ParseInt(string(word), 10, 64)
		if err != nil || first < 0 {
			return r.bad("%.30q is not an element's number", word)
		}
		word, rest, _ = bytes.Cut(rest, []byte{'\t'})
		n, err := strconv.Atoi(string(word))
		if err != nil || n < 1 {
			return r.bad("%.30q is not a number of values", word)
		}
		if v, err = r.parse(v[:0], rest); err != nil {
			return err
		}
		if n > len(v) || !r.State && n != len(v) || first > r.Dense.Elements-int64(n) {
			return r.bad("a block of %d values from %d has %d numbers, of a vector of %d", n, first, len(v), r.Dense.Elements)
		}
		return f(first, v[:n], v[n:])
	})
}
