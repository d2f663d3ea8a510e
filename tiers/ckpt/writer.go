package ckpt

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"path/filepath"

	"psrt/tiers/table"
)

// Writer writes part files into an incoming directory. Each process that
// writes has its own; its parts may be written by several goroutines.
type Writer struct {
	disk        disk
	dir         string
	weightsOnly bool
}

// NewWriter writes below dir, an Incoming's Path. weightsOnly leaves the
// optimizer's state out; it must be the same for all writers of a model and in
// its manifest.
func NewWriter(dir string, weightsOnly bool) *Writer { return &Writer{osDisk{}, dir, weightsOnly} }

// partWriter is what rows and dense blocks have in common. After its first
// error it does nothing more.
type partWriter struct {
	path    string
	disk    disk
	f       file
	sum     hash.Hash
	block   []byte // room for the block's header, then its payload so far
	records uint32 // in block
	count   footer
	part    Part
	err     error
}

func (w *Writer) open(name string, h header, p Part) (*partWriter, error) {
	if !validName(name) {
		return nil, fmt.Errorf("ckpt: part name %q, want lower-case letters, digits and dashes, at most 128", name)
	}
	p.File = name + partSuffix
	pw := &partWriter{path: filepath.Join(w.dir, p.File), disk: w.disk, sum: sha256.New(), part: p,
		block: make([]byte, blockHead, blockHead+blockBytes+4096)}
	f, err := w.disk.create(pw.path)
	if err != nil {
		return nil, explain("making", pw.path, err)
	}
	pw.f = f
	h.version, h.weightsOnly = Format, w.weightsOnly
	pw.write(h.encode())
	if pw.err != nil {
		pw.abort()
		return nil, pw.err
	}
	return pw, nil
}

func (pw *partWriter) write(b []byte) {
	if pw.err != nil {
		return
	}
	if _, err := pw.f.Write(b); err != nil {
		pw.err = explain("writing", pw.path, err)
		return
	}
	pw.sum.Write(b)
	pw.part.Bytes += int64(len(b))
}

// flush writes the block out.
func (pw *partWriter) flush() {
	if pw.records == 0 {
		return
	}
	h := blockHeader(pw.block[blockHead:], pw.records)
	copy(pw.block, h[:])
	pw.write(pw.block)
	pw.count.blocks++
	pw.count.records += uint64(pw.records)
	pw.block, pw.records = pw.block[:blockHead], 0
}

// added notes that a record was appended to the block.
func (pw *partWriter) added() {
	if pw.records++; len(pw.block) >= blockHead+blockBytes {
		pw.flush()
	}
}

// close ends the file and puts it on the disk.
func (pw *partWriter) close() (Part, error) {
	if pw.f == nil {
		return Part{}, fmt.Errorf("ckpt: %s is closed already", pw.path)
	}
	pw.flush()
	pw.write(pw.count.encode())
	if pw.err == nil {
		if err := pw.f.Sync(); err != nil {
			pw.err = explain("syncing", pw.path, err)
		}
	}
	if pw.err != nil {
		pw.abort()
		return Part{}, pw.err
	}
	err := pw.f.Close()
	pw.f = nil
	if err != nil {
		return Part{}, explain("closing", pw.path, err)
	}
	pw.part.Records = int64(pw.count.records)
	pw.part.SHA256 = hex.EncodeToString(pw.sum.Sum(nil))
	return pw.part, nil
}

// abort gives up; the incoming directory's end takes the file along.
func (pw *partWriter) abort() {
	if pw.f != nil {
		_ = pw.f.Close() // the error that matters came before
		pw.f = nil
	}
}

func appendFloats(b []byte, v []float32) []byte {
	for _, f := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

// RowsWriter writes one part of a table. It belongs to one goroutine.
type RowsWriter struct {
	pw     *partWriter
	floats int // of a row in memory
	keep   int // of a row in the file
}

// Rows begins a part with the rows of some slots. name must be unique in the
// model ("t0-server1-lane0"); covers lists the slots, whether they have rows or
// not. All parts of a table together cover each slot once.
func (w *Writer) Rows(name string, spec table.Spec, covers []Range) (*RowsWriter, error) {
	r := &RowsWriter{floats: spec.RowFloats(), keep: spec.RowFloats()}
	if w.weightsOnly {
		r.keep = spec.Dim
	}
	var err error
	r.pw, err = w.open(name, header{kind: kindRows, table: spec.ID, record: uint32(8 + 4*r.keep)}, Part{Table: spec.ID, Covers: covers})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Add writes a row: its weights and then its optimizer's state, which is left
// out if the writer keeps weights only. Its error is the first of this part.
func (r *RowsWriter) Add(key uint64, row []float32) error {
	if r.pw.err == nil && len(row) != r.floats {
		r.pw.err = fmt.Errorf("ckpt: %s: row of key %d has %d floats, want %d", r.pw.path, key, len(row), r.floats)
	}
	if r.pw.err != nil {
		return r.pw.err
	}
	r.pw.block = binary.LittleEndian.AppendUint64(r.pw.block, key)
	r.pw.block = appendFloats(r.pw.block, row[:r.keep])
	r.pw.added()
	return r.pw.err
}

// Close ends the part and describes it.
func (r *RowsWriter) Close() (Part, error) { return r.pw.close() }

// Abort gives the part up. It does nothing after Close.
func (r *RowsWriter) Abort() { r.pw.abort() }

// DenseWriter writes one part of a dense vector. It belongs to one goroutine.
type DenseWriter struct {
	pw    *partWriter
	state bool
}

// Dense begins a part of the dense vector with an ID.
func (w *Writer) Dense(name string, id uint32) (*DenseWriter, error) {
	pw, err := w.open(name, header{kind: kindDense, table: id}, Part{Dense: true, Table: id})
	if err != nil {
		return nil, err
	}
	return &DenseWriter{pw, !w.weightsOnly}, nil
}

// Add writes a block: elements first, first+1, ... and the optimizer's state
// for them, which is left out if the writer keeps weights only.
func (d *DenseWriter) Add(first int64, values, state []float32) error {
	pw := d.pw
	if !d.state {
		state = nil
	}
	if n := 16 + 4*(len(values)+len(state)); pw.err == nil && (first < 0 || len(values) == 0 || n > maxBlock-blockBytes) {
		pw.err = fmt.Errorf("ckpt: %s: block of %d values from %d with %d floats of state, want 1 value or more and at most %d bytes",
			pw.path, len(values), first, len(state), maxBlock-blockBytes)
	}
	if pw.err != nil {
		return pw.err
	}
	pw.block = binary.LittleEndian.AppendUint64(pw.block, uint64(first))
	pw.block = binary.LittleEndian.AppendUint32(pw.block, uint32(len(values)))
	pw.block = binary.LittleEndian.AppendUint32(pw.block, uint32(len(state)))
	pw.block = appendFloats(appendFloats(pw.block, values), state)
	last := first + int64(len(values))
	if n := len(pw.part.Covers); n > 0 && pw.part.Covers[n-1].Last == first {
		pw.part.Covers[n-1].Last = last
	} else {
		pw.part.Covers = append(pw.part.Covers, Range{first, last})
	}
	pw.added()
	return pw.err
}

// Close ends the part and describes it.
func (d *DenseWriter) Close() (Part, error) { return d.pw.close() }

// Abort gives the part up. It does nothing after Close.
func (d *DenseWriter) Abort() { d.pw.abort() }
