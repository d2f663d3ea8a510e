package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"psrt/sched/dataset"
	"psrt/sched/outfile"
	"psrt/sched/train/model"
)

// Files is where an index is written: ids, and vectors in the same order.
func (e *Emit) Files() (ids, vectors string) { return e.Name + ".ids.npy", e.Name + ".vectors.npy" }

// emitter makes ids and vectors of rows.
type emitter struct {
	id     *uint16
	wanted []bool // by field; nil: all
	dim    int    // of a vector
	skip   int    // floats of a row before its embedding
	rowDim int
}

// newEmitter checks that a model has vectors.
func (e *Emit) newEmitter(m *model.Model) (*emitter, error) {
	spec := m.Spec()
	x := &emitter{id: e.ID, rowDim: m.RowDim(), dim: spec.Dim}
	if x.skip = x.rowDim - x.dim; spec.Kind == model.LR {
		return nil, &InputError{fmt.Errorf("train: --emit %s: %s has weights and no vectors; use a model with --dim", e.Name, spec.Kind)}
	}
	if len(e.Fields) > 0 {
		x.wanted = make([]bool, int(slices.Max(e.Fields))+1)
		for _, f := range e.Fields {
			x.wanted[f] = true
		}
	}
	return x, nil
}

// wants says whether a field's embeddings are part of the vectors.
func (x *emitter) wants(field uint16) bool {
	return x.wanted == nil || int(field) < len(x.wanted) && x.wanted[field]
}

// append adds the ids and vectors of a leaf's rows as files have them: a vector is the
// sum of value times embedding over the row's features of the fields asked for, in
// their order, so that the same rows give the same bits wherever they are scored.
func (x *emitter) append(l *ScoredLeaf, ids, vectors []byte) (_, _ []byte, err error) {
	b := l.Rows
	sum := make([]float32, x.dim)
	for i := range b.Len() {
		id, known := l.First+uint64(i), x.id == nil
		clear(sum)
		for o := b.Offsets[i]; o < b.Offsets[i+1]; o++ {
			if x.id != nil && b.Fields[o] == *x.id {
				if known {
					return nil, nil, &InputError{fmt.Errorf("train: row %d has several values of the field of --emit-id: give one that has a single value", l.First+uint64(i)+1)}
				}
				switch id = b.Keys[o]; id {
				case dataset.NumberKey(int(*x.id)):
					return nil, nil, &InputError{errors.New("train: the field of --emit-id has numbers, which all are looked up as one: give a field of words or ids, or leave the flag out to number rows")}
				case dataset.MissingKey(int(*x.id)):
					return nil, nil, noID(l.First + uint64(i))
				}
				known = true
			}
			if !x.wants(b.Fields[o]) {
				continue
			}
			row := l.work.vals[int(l.work.occ[o])*x.rowDim+x.skip:][:x.dim]
			for k, v := range row {
				sum[k] += b.Values[o] * v
			}
		}
		if !known {
			return nil, nil, noID(l.First + uint64(i))
		}
		ids = binary.LittleEndian.AppendUint64(ids, id)
		for _, v := range sum {
			vectors = binary.LittleEndian.AppendUint32(vectors, math.Float32bits(v))
		}
	}
	return ids, vectors, nil
}

func noID(row uint64) error {
	return &InputError{fmt.Errorf("train: row %d has no value of the field of --emit-id: leave the flag out to number rows", row+1)}
}

// npyHeader is the length of the head of an .npy file of this package: room for any
// number of rows, so that it is written when that is known.
const npyHeader = 128

// npyHead describes rows of a type to readers of NumPy's format 1.0; width 0 is a plain
// list.
func npyHead(kind string, rows int64, width int) []byte {
	shape := fmt.Sprintf("(%d,)", rows)
	if width > 0 {
		shape = fmt.Sprintf("(%d, %d)", rows, width)
	}
	const before = "\x93NUMPY\x01\x00" // and two bytes that say how long the text is
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	text += strings.Repeat(" ", npyHeader-len(before)-2-len(text)-1) + "\n"
	return append(binary.LittleEndian.AppendUint16([]byte(before), uint16(len(text))), text...)
}

// npyFile is a file of rows of one type.
type npyFile struct {
	*outfile.File
	kind         string
	width, bytes int // of a row
	written      int64
}

func createNpy(path, kind string, width, bytes int) (*npyFile, error) {
	f, err := createOut("--emit", path)
	if err != nil {
		return nil, err
	}
	n := &npyFile{File: f, kind: kind, width: width, bytes: bytes}
	if _, err = f.Write(npyHead(kind, 0, width)); err != nil {
		return nil, errors.Join(err, f.End(false))
	}
	return n, nil
}

// Write adds whole rows.
func (n *npyFile) Write(b []byte) (int, error) {
	w, err := n.File.Write(b)
	n.written += int64(w)
	return w, err
}

// ReadFrom hides the file's own, which would not be counted.
func (n *npyFile) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{n}, r)
}

// End hides the file's own, too: it says in the head how many rows there are.
func (n *npyFile) End(keep bool) (err error) {
	if keep {
		_, err = n.File.WriteAt(npyHead(n.kind, n.written/int64(n.bytes), n.width), 0)
	}
	return errors.Join(err, n.File.End(keep && err == nil))
}
