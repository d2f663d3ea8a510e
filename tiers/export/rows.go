package export

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"psrt/rdma/mem"
	"psrt/tiers/accessor"
	"psrt/tiers/export/extsort"
	"psrt/tiers/export/quant"
	"psrt/tiers/table"
)

// rows are a table's on their way: read, chosen, encoded and sorted.
type rows struct {
	spec   *table.Spec
	layout quant.Layout // of weights
	state  int          // floats behind them, as they are
	sorter *extsort.Sorter
	info   Table
	// content is the digest of the encoded rows, for an inference model.
	content table.Digest
}

// read takes all rows of a table. number is what they are sorted by.
func (x *exporter) read(spec *table.Spec, e quant.Encoding, number func(key uint64) uint64) (*rows, error) {
	layout := quant.Layout{Encoding: e, Dim: spec.Dim}
	if layout.Encoding == quant.I8 {
		layout.Exact = spec.Init.ZeroPrefix // a linear term: see package quant
	}
	r := &rows{spec: spec, layout: layout, info: Table{Spec: *spec, Encoding: layout.Encoding.String(), Exact: layout.Exact}}
	if x.opts.State {
		r.state = spec.RowFloats() - spec.Dim
	}
	var view *accessor.View
	if spec.Lifecycle != nil && !x.model.WeightsOnly {
		memo, err := accessor.ParseMemo(x.model.Lifecycle[spec.ID])
		if err == nil {
			view, err = accessor.NewView(*spec, memo.History)
		}
		if err != nil {
			return nil, fmt.Errorf("export: table %s: %w", spec.Name, err)
		}
	}
	r.sorter = extsort.New(extsort.Config{RecordBytes: layout.Bytes() + 4*r.state, Memory: x.opts.Memory, Path: filepath.Join(x.in.Path(), "spill")})
	width := spec.RowFloats()
	if x.model.WeightsOnly {
		width = spec.Dim
	}
	of, _ := x.model.RowCount(spec.ID)
	var mu sync.Mutex // reading and checking goes on beside what follows
	weights, record := make([]float32, spec.Dim), make([]byte, layout.Bytes()+4*r.state)
	var hasher table.RowHasher
	err := x.model.Rows(x.ctx, spec.ID, x.opts.Workers, nil, func(keys []uint64, stored []float32) error {
		mu.Lock()
		defer mu.Unlock()
		for i, key := range keys {
			row := stored[i*width : (i+1)*width]
			if view != nil && x.opts.Serving && !view.Serves(row) {
				r.info.Unserved++
				continue
			}
			copy(weights, row)
			if view != nil && !x.opts.State {
				view.Weights(row, weights)
			}
			if x.opts.Serving && x.opts.Kind == Inference && zero(weights) {
				r.info.Zero++
				continue
			}
			if err := layout.Encode(record, weights); err != nil {
				return fmt.Errorf("export: table %s, key %d: %w", spec.Name, key, err)
			}
			copy(record[layout.Bytes():], mem.Bytes(row[width-r.state:]))
			if x.opts.Kind == Inference {
				r.content.Add(hasher.Hash(spec.ID, key, record))
			}
			if err := r.sorter.Add(number(key), record); err != nil {
				return x.explainSpill(err)
			}
		}
		x.progress(spec.Name, "reading", r.sorter.Len(), of)
		return nil
	})
	if err != nil {
		_ = r.sorter.Close() // the error that matters is err
		return nil, err
	}
	r.info.Rows = r.sorter.Len()
	if x.opts.Kind == Inference {
		r.info.Content = r.content.String()
	}
	return r, nil
}

func zero(w []float32) bool {
	for _, x := range w {
		if x != 0 {
			return false
		}
	}
	return true
}

// progressRows are written between two looks at whether it shall go on.
const progressRows = 16384

// each calls f for every row in order.
func (r *rows) each(x *exporter, f func(number uint64, record []byte) error) error {
	n := int64(0)
	err := r.sorter.Each(func(number uint64, record []byte) error {
		if n++; n%progressRows == 0 {
			x.progress(r.spec.Name, "writing", n, r.sorter.Len())
			if x.ctx.Err() != nil {
				return context.Cause(x.ctx)
			}
		}
		return f(number, record)
	})
	return x.explainSpill(err)
}
