package ckpt

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"path"

	"psrt/rdma/mem"
	"psrt/tiers/ckpt/files"
)

// Writer writes part files into an incoming directory. Each process that
// writes has its own; its parts may be written by several goroutines.
type Writer struct {
	ctx context.Context
	fs  files.FS
	dir string   // below fs
	as  Manifest // what all parts have in common: format, generation, kind, weights only, quantised, packed
}

// NewWriter writes below dir, an Incoming's Path. weightsOnly leaves the
// optimizer's state out; it must be the same for all writers of a model and in
// its manifest.
func NewWriter(dir string, weightsOnly bool) *Writer { return newWriter(files.OS{}, dir, weightsOnly) }

func newWriter(d files.Disk, dir string, weightsOnly bool) *Writer {
	return &Writer{context.Background(), files.OnDisk(dir, d), "", Manifest{Format: FormatModel, WeightsOnly: weightsOnly}}
}

// partWriter is what rows and dense blocks have in common. After its first
// error it does nothing more.
type partWriter struct {
	path    string
	f       files.File
	sum     hash.Hash
	blocks  hash.Hash // of all but the blocks' payloads
	block   []byte    // room for the block's header, then its payload so far
	records uint32    // in block
	count   footer
	part    Part
	err     error

	packer *packer // nil where nothing is packed
	record int     // bytes
}

func (w *Writer) open(name string, h header, p Part) (*partWriter, error) {
	if !validName(name) {
		return nil, fmt.Errorf("ckpt: part name %q, want lower-case letters, digits and dashes, at most 128", name)
	}
	rand.Read(h.part[:])
	p.File, p.ID = name+partSuffix, h.part.String()
	full := path.Join(w.dir, p.File)
	pw := &partWriter{path: w.fs.Path(full), sum: sha256.New(), blocks: sha256.New(), part: p, block: make([]byte, blockHead, blockHead+blockBytes+4096)}
	f, err := w.fs.Create(w.ctx, full)
	if err != nil {
		return nil, explain("making", pw.path, err)
	}
	pw.f = f
	h.version, h.flags = uint32(w.as.Format), w.as.flags(p.Dense)
	h.number, h.id = w.as.Number, w.as.id()
	if w.as.Compress == CompressLZ4 {
		pw.packer, pw.record = new(packer), cmp.Or(int(h.record), floatBytes)
	}
	pw.end(h.encode())
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

// end writes a header or a footer.
func (pw *partWriter) end(b []byte) {
	pw.blocks.Write(b)
	pw.write(b)
}

// flush writes the block out.
func (pw *partWriter) flush() {
	pw.out(pw.block, pw.records, 0)
	pw.block, pw.records = pw.block[:blockHead], 0
}

// out writes a block, which has room for its header.
func (pw *partWriter) out(block []byte, records, mark uint32) {
	if records == 0 {
		return
	}
	if pw.packer != nil {
		record := pw.record
		if mark == deletions {
			record = idBytes
		}
		if b := pw.packer.pack(block, record); b != nil {
			block, mark = b, mark|packed
		}
	}
	h := blockHeader(block[blockHead:], records|mark)
	copy(block, h[:])
	pw.blocks.Write(h[:])
	pw.write(block)
	pw.count.blocks++
	pw.count.records += uint64(records)
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
	pw.end(pw.count.encode())
	if pw.err != nil {
		pw.abort()
		return Part{}, pw.err
	}
	err := pw.f.Close()
	pw.f = nil
	if err != nil {
		pw.err = explain("syncing", pw.path, err)
		return Part{}, pw.err
	}
	pw.part.Records = int64(pw.count.records)
	pw.part.SHA256 = hex.EncodeToString(pw.sum.Sum(nil))
	pw.part.Blocks = hex.EncodeToString(pw.blocks.Sum(nil))
	return pw.part, nil
}

// abort gives up; the incoming directory's end takes the file along.
func (pw *partWriter) abort() {
	if pw.f != nil {
		pw.f.Abort()
		pw.f = nil
	}
}

// appendFloats is getFloats' inverse.
func appendFloats(b []byte, v []float32) []byte { return append(b, mem.Bytes(v)...) }

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
	return &DenseWriter{pw, !w.as.WeightsOnly}, nil
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
