package ckpt

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
)

// partReader reads one part from its first block on.
type partReader struct {
	path    string
	part    *Part
	f       *os.File
	in      *bufio.Reader
	left    int64 // bytes of blocks not yet read
	payload []byte
	count   footer
}

// openPart checks a part's size, header and footer against the manifest.
func (m *Model) openPart(p *Part) (*partReader, error) {
	path := m.path(p)
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, m.lost(path)
		}
		return nil, explain("opening", path, err)
	}
	r := &partReader{path: path, part: p, f: f, left: p.Bytes - headerBytes - footerBytes}
	if err := r.check(m); err != nil {
		f.Close()
		return nil, err
	}
	r.in = bufio.NewReaderSize(io.NewSectionReader(f, headerBytes, r.left), blockBytes)
	return r, nil
}

// lost is the error for a part that is not there: gone, or replaced together
// with the whole model while it was read.
func (m *Model) lost(path string) error {
	if now := currentGeneration(m.dir); now != m.Generation && now != unknownGeneration {
		return corrupt(path, "the model in %s was replaced while it was read; open it again", m.dir)
	}
	return corrupt(path, "the file is missing")
}

func (r *partReader) check(m *Model) error {
	st, err := r.f.Stat()
	if err != nil {
		return explain("looking at", r.path, err)
	}
	if st.Size() != r.part.Bytes {
		return corrupt(r.path, "it has %d bytes, the manifest says %d", st.Size(), r.part.Bytes)
	}
	b := make([]byte, headerBytes)
	if _, err := r.f.ReadAt(b, 0); err != nil {
		return explain("reading", r.path, err)
	}
	h, err := decodeHeader(b)
	if err != nil {
		return corrupt(r.path, "%v", err)
	}
	want := header{version: h.version, kind: kindDense, table: r.part.Table, weightsOnly: m.WeightsOnly}
	if !r.part.Dense {
		want.kind, want.record = kindRows, uint32(m.recordBytes(m.Spec(r.part.Table)))
	}
	if h != want {
		return corrupt(r.path, "its header says %+v, the manifest %+v", h, want)
	}
	if _, err := r.f.ReadAt(b[:footerBytes], r.part.Bytes-footerBytes); err != nil {
		return explain("reading", r.path, err)
	}
	foot, err := decodeFooter(b[:footerBytes])
	if err != nil {
		return corrupt(r.path, "%v", err)
	}
	if foot.records != uint64(r.part.Records) {
		return corrupt(r.path, "it has %d records, the manifest says %d", foot.records, r.part.Records)
	}
	r.count = foot
	return nil
}

// next is the payload of the next block and its number of records; io.EOF
// after the last. The payload is valid until the next call.
func (r *partReader) next() ([]byte, uint32, error) {
	if r.left == 0 {
		if r.count != (footer{}) {
			return nil, 0, corrupt(r.path, "%d blocks and %d records fewer than its footer says", r.count.blocks, r.count.records)
		}
		return nil, 0, io.EOF
	}
	at := r.part.Bytes - footerBytes - r.left
	var h [blockHead]byte
	if r.left < blockHead {
		return nil, 0, corrupt(r.path, "%d stray bytes at byte %d", r.left, at)
	}
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return nil, 0, explain("reading", r.path, err)
	}
	n, records := binary.LittleEndian.Uint32(h[0:]), binary.LittleEndian.Uint32(h[4:])
	if n > maxBlock || int64(n) > r.left-blockHead || records == 0 || uint64(records) > r.count.records || r.count.blocks == 0 {
		return nil, 0, corrupt(r.path, "the block at byte %d states %d bytes and %d records", at, n, records)
	}
	if cap(r.payload) < int(n) {
		r.payload = make([]byte, n)
	}
	b := r.payload[:n]
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, 0, explain("reading", r.path, err)
	}
	if crc := crc32.Update(crc32.Checksum(h[:8], castagnoli), castagnoli, b); crc != binary.LittleEndian.Uint32(h[8:]) {
		return nil, 0, corrupt(r.path, "the checksum of the block at byte %d is wrong", at)
	}
	r.left -= blockHead + int64(n)
	r.count.blocks--
	r.count.records -= uint64(records)
	return b, records, nil
}

func (r *partReader) rows(ctx context.Context, floats int, f func([]uint64, []float32) error) error {
	var keys []uint64
	var rows []float32
	for {
		b, n, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if record := 8 + 4*floats; int64(len(b)) != int64(n)*int64(record) {
			return corrupt(r.path, "a block of %d records of %d bytes has %d bytes", n, record, len(b))
		}
		keys, rows = keys[:0], rows[:0]
		for len(b) > 0 {
			keys = append(keys, binary.LittleEndian.Uint64(b))
			rows = decodeFloats(rows, b[8:], floats)
			b = b[8+4*floats:]
		}
		if err := f(keys, rows); err != nil {
			return err
		}
	}
}

func (r *partReader) dense(ctx context.Context, elements int64, f func(int64, []float32, []float32) error) error {
	var floats []float32
	for {
		b, n, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		for range n {
			if len(b) < 16 {
				return corrupt(r.path, "a dense block has %d bytes", len(b))
			}
			first := int64(binary.LittleEndian.Uint64(b))
			values, state := int64(binary.LittleEndian.Uint32(b[8:])), int64(binary.LittleEndian.Uint32(b[12:]))
			if b = b[16:]; first < 0 || values < 1 || first > elements-values || 4*(values+state) > int64(len(b)) {
				return corrupt(r.path, "a dense block states %d values from %d of %d and %d floats of state", values, first, elements, state)
			}
			floats = decodeFloats(floats[:0], b, int(values+state))
			b = b[4*(values+state):]
			if err := f(first, floats[:values], floats[values:]); err != nil {
				return err
			}
		}
		if len(b) != 0 {
			return corrupt(r.path, "%d stray bytes after the last dense block", len(b))
		}
	}
}

// decodeFloats appends n floats of b to v.
func decodeFloats(v []float32, b []byte, n int) []float32 {
	for i := range n {
		v = append(v, math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return v
}
