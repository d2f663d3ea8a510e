package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path"
	"slices"

	"psrt/rdma/mem"
	"psrt/tiers/ckpt/files"
)

// partReader reads one part from its first block on.
type partReader struct {
	path    string
	m       *Manifest // whose part it is
	part    *Part
	f       files.Reader
	in      *readAhead // nil before the first block
	left    int64      // bytes of blocks not yet read
	ends    [2][]byte  // header and footer
	sum     hash.Hash  // of what was read: see Part.Blocks
	payload []byte
	count   footer
	deleted int64 // deletions read so far
	unpacker
}

// openPart checks a part's size, header and footer against its manifest.
func (m *Model) openPart(ctx context.Context, of *Manifest, p *Part) (*partReader, error) {
	name := path.Join(of.Generation, p.File)
	full := m.fs.Path(name)
	f, err := m.fs.Open(ctx, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, m.lost(ctx, of, full)
		}
		return nil, explain("opening", full, err)
	}
	r := &partReader{path: full, m: of, part: p, f: f, left: p.Bytes - headerBytes - footerBytes}
	if err := r.check(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *partReader) close() {
	if r.in != nil {
		r.in.stop()
	}
	_ = r.f.Close() // it was only read
}

// lost is the error for a part that is not there: gone, or removed or replaced
// together with its generation while it was read.
func (m *Model) lost(ctx context.Context, of *Manifest, path string) error {
	if of.Format == FormatModel {
		if now := currentGeneration(m.dir); now != of.Generation && now != unknownGeneration {
			return corrupt(path, "the model in %s was replaced while it was read; open it again", m.dir)
		}
		return corrupt(path, "the file is missing")
	}
	if _, err := m.fs.Read(ctx, manifestFile(of.Number), maxManifest); errors.Is(err, fs.ErrNotExist) {
		return corrupt(path, "generation %d was removed while it was read, to keep fewer; open the history again", of.Number)
	}
	return corrupt(path, "the file of generation %d is missing", of.Number)
}

func (r *partReader) check() error {
	if size := r.f.Size(); size != r.part.Bytes {
		return corrupt(r.path, "it has %d bytes, the manifest says %d", size, r.part.Bytes)
	}
	b, end := make([]byte, headerBytes), make([]byte, footerBytes)
	r.ends = [2][]byte{b, end}
	if _, err := r.f.ReadAt(b, 0); err != nil {
		return explain("reading", r.path, err)
	}
	h, err := decodeHeader(b)
	if err != nil {
		return corrupt(r.path, "%v", err)
	}
	want := header{version: uint32(r.m.Format), kind: kindDense, table: r.part.Table, flags: r.m.flags(r.part.Dense), number: r.m.Number, id: r.m.id()}
	if !r.part.Dense {
		want.kind, want.record = kindRows, uint32(r.m.recordBytes(r.m.Spec(r.part.Table)))
	}
	want.part, _ = parsePartID(r.part.ID) // validate has looked at it
	if h.version == want.version && (h.number != want.number || h.id != want.id) {
		return corrupt(r.path, "it belongs to generation %d (%016x), not to generation %d (%016x): files were exchanged", h.number, h.id, want.number, want.id)
	}
	if h.version == want.version && h.part != want.part {
		return corrupt(r.path, "it is part %v, the manifest names part %v: files were exchanged, or one of another model was put here", h.part, want.part)
	}
	if h != want {
		return corrupt(r.path, "its header says %+v, the manifest %+v", h, want)
	}
	if n, err := r.f.ReadAt(end, r.part.Bytes-footerBytes); n < footerBytes {
		return explain("reading", r.path, err)
	}
	foot, err := decodeFooter(end)
	if err != nil {
		return corrupt(r.path, "%v", err)
	}
	if foot.records != uint64(r.part.Records) {
		return corrupt(r.path, "it has %d records, the manifest says %d", foot.records, r.part.Records)
	}
	r.count = foot
	return nil
}

// next is the payload of the next block and its number of records, which are
// deletions or not; io.EOF after the last. The payload is valid until the next
// call.
func (r *partReader) next() (b []byte, records uint32, gone bool, err error) {
	if r.left == 0 {
		if r.count != (footer{}) {
			return nil, 0, false, corrupt(r.path, "%d blocks and %d records fewer than its footer says", r.count.blocks, r.count.records)
		}
		if r.deleted != r.part.Deleted {
			return nil, 0, false, corrupt(r.path, "it has %d deletions, the manifest says %d", r.deleted, r.part.Deleted)
		}
		if err := r.compare(); err != nil {
			return nil, 0, false, err
		}
		return nil, 0, false, io.EOF
	}
	at := r.part.Bytes - footerBytes - r.left
	if r.in == nil {
		r.in = newReadAhead(r.f, at, r.part.Bytes-footerBytes)
	}
	var h [blockHead]byte
	if r.left < blockHead {
		return nil, 0, false, corrupt(r.path, "%d stray bytes at byte %d", r.left, at)
	}
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return nil, 0, false, explain("reading", r.path, err)
	}
	r.hashed().Write(h[:])
	n, records := binary.LittleEndian.Uint32(h[0:]), binary.LittleEndian.Uint32(h[4:])
	if r.m.Kind == KindDelta && !r.part.Dense && records&deletions != 0 {
		records, gone = records&^deletions, true
	}
	isPacked := r.m.Compress == CompressLZ4 && records&packed != 0
	if isPacked {
		records &^= packed
	}
	if n > maxBlock || int64(n) > r.left-blockHead || records == 0 || uint64(records) > r.count.records || r.count.blocks == 0 {
		return nil, 0, false, corrupt(r.path, "the block at byte %d states %d bytes and %d records", at, n, records)
	}
	if b = r.in.take(int(n)); b == nil {
		if cap(r.payload) < int(n) {
			r.payload = make([]byte, n)
		}
		b = r.payload[:n]
		if _, err := io.ReadFull(r.in, b); err != nil {
			return nil, 0, false, explain("reading", r.path, err)
		}
	}
	if crc := crc32.Update(crc32.Checksum(h[:8], castagnoli), castagnoli, b); crc != binary.LittleEndian.Uint32(h[8:]) {
		return nil, 0, false, corrupt(r.path, "the checksum of the block at byte %d is wrong", at)
	}
	if r.part.Blocks == "" {
		r.sum.Write(b)
	}
	r.left -= blockHead + int64(n)
	r.count.blocks--
	r.count.records -= uint64(records)
	if gone {
		r.deleted += int64(records)
	}
	if isPacked {
		if b, err = r.unpack(b, r.record(gone), maxBlock); err != nil {
			return nil, 0, false, corrupt(r.path, "the block at byte %d: %v", at, err)
		}
	}
	return b, records, gone, nil
}

// hashed is the hash of what was read, which begins with the header.
func (r *partReader) hashed() hash.Hash {
	if r.sum == nil {
		r.sum = sha256.New()
		r.sum.Write(r.ends[0])
	}
	return r.sum
}

// compare compares the hash of a part that was read to its end with the manifest.
func (r *partReader) compare() error {
	sum, of, want := r.hashed(), "SHA-256 of its blocks' headers", r.part.Blocks
	if want == "" {
		of, want = "SHA-256", r.part.SHA256
	}
	sum.Write(r.ends[1])
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return corrupt(r.path, "its %s is %s, the manifest says %s: it is another model's, or in part", of, got, want)
	}
	return nil
}

// record is the bytes of what the part is a list of.
func (r *partReader) record(gone bool) int {
	switch {
	case r.part.Dense:
		return floatBytes
	case gone:
		return idBytes
	}
	return r.m.recordBytes(r.m.Spec(r.part.Table))
}

// rows calls f for each block: whole records of record bytes, or ids alone.
func (r *partReader) rows(ctx context.Context, f func(block []byte, record int, gone bool) error) error {
	for {
		b, n, gone, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		record := r.record(gone)
		if int64(len(b)) != int64(n)*int64(record) {
			return corrupt(r.path, "a block of %d records of %d bytes has %d bytes", n, record, len(b))
		}
		if err := f(b, record, gone); err != nil {
			return err
		}
	}
}

func (r *partReader) dense(ctx context.Context, elements int64, f func(int64, []float32, []float32) error) error {
	var floats []float32
	for {
		b, n, _, err := r.next()
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
	v = slices.Grow(v, n)[:len(v)+n]
	getFloats(v[len(v)-n:], b)
	return v
}

// getFloats fills v from b: floats are kept as this machine, like every one that
// psrt is built for, has them in memory.
func getFloats(v []float32, b []byte) { copy(mem.Bytes(v), b[:4*len(v)]) }
