package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/export/safetensors"
	"psrt/tiers/table"
)

// metadata is what a file of tensors says of itself.
func (x *exporter) metadata(kind, name string, id uint32) map[string]string {
	return map[string]string{"format": "psrt", "version": strconv.Itoa(format), kind: name, "id": strconv.FormatUint(uint64(id), 10),
		"digest": x.model.Digest, "meta": string(x.model.Meta)}
}

// column is one tensor of a table: some bytes of every record.
type column struct {
	name string
	typ  safetensors.Type
	cols int64 // 0: one element a row, in one dimension
	// of appends a row's part to b.
	of func(b []byte, key uint64, record []byte) ([]byte, error)
}

// tableTensors writes a table as tensors: keys in ascending order, and weights
// and state row by row.
func (x *exporter) tableTensors(spec *table.Spec, name string) (*Table, error) {
	// Half floats are written without a scale, as other tools have them, so rows
	// are sorted as they are.
	wanted := x.opts.Quantize
	sorted := wanted
	if wanted == quant.F16 {
		sorted = quant.F32
	}
	return x.table(spec, name+".safetensors", sorted, sameKey, func(f *outdir.File, r *rows) error {
		r.info.Encoding = wanted.String()
		cols := columns(spec, r, wanted)
		var tensors []safetensors.Tensor
		for _, c := range cols {
			shape := []int64{r.sorter.Len()}
			if c.cols > 0 {
				shape = append(shape, c.cols)
			}
			tensors = append(tensors, safetensors.Tensor{Name: c.name, Type: c.typ, Shape: shape})
		}
		w, err := safetensors.NewWriter(f, tensors, x.metadata("table", spec.Name, spec.ID))
		if err != nil {
			return err
		}
		for _, tensor := range tensors { // the writer has put them in order
			for _, c := range cols {
				if c.name != tensor.Name {
					continue
				}
				var b []byte
				err := r.each(x, func(key uint64, record []byte) (err error) {
					if b, err = c.of(b[:0], key, record); err == nil {
						_, err = w.Write(b)
					}
					return err
				})
				if err != nil {
					return err
				}
			}
		}
		return w.Close()
	})
}

// columns are keys, weights in the wanted encoding, and state.
func columns(spec *table.Spec, r *rows, wanted quant.Encoding) []column {
	le := binary.LittleEndian
	dim, exact, end := int64(spec.Dim), 4*r.layout.Exact, r.layout.Bytes()
	part := func(from, to int) func(b []byte, _ uint64, record []byte) ([]byte, error) {
		return func(b []byte, _ uint64, record []byte) ([]byte, error) { return append(b, record[from:to]...), nil }
	}
	cols := []column{{"keys", safetensors.U64, 0, func(b []byte, key uint64, _ []byte) ([]byte, error) {
		return le.AppendUint64(b, key), nil
	}}}
	switch {
	case wanted == quant.F32 || r.layout.Exact == spec.Dim:
		cols = append(cols, column{"weights", safetensors.F32, dim, part(0, 4*spec.Dim)})
	case wanted == quant.F16:
		cols = append(cols, column{"weights", safetensors.F16, dim, func(b []byte, key uint64, record []byte) ([]byte, error) {
			for i := range spec.Dim {
				v := math.Float32frombits(le.Uint32(record[4*i:]))
				h := quant.Half(v)
				if v != v || h&0x7c00 == 0x7c00 {
					return nil, fmt.Errorf("export: table %s, key %d: weight %d is %v, which is no half float; leave --quantize out", spec.Name, key, i, v)
				}
				b = le.AppendUint16(b, h)
			}
			return b, nil
		}})
	default: // weights = int8 x scale, behind those that are exact
		if exact > 0 {
			cols = append(cols, column{"exact", safetensors.F32, int64(r.layout.Exact), part(0, exact)})
		}
		cols = append(cols, column{"scale", safetensors.F32, 0, part(exact, exact+4)},
			column{"weights", safetensors.I8, dim - int64(r.layout.Exact), part(exact+4, exact+4+spec.Dim-r.layout.Exact)})
	}
	if r.state > 0 {
		cols = append(cols, column{"state", safetensors.F32, int64(r.state), part(end, end+4*r.state)})
	}
	return cols
}
