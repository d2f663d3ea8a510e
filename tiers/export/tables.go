package export

import (
	"encoding/json"

	"psrt/rdma/mem"
	"psrt/tiers/export/inference"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/export/text"
	"psrt/tiers/table"
)

// tableMapped writes a table of an inference model.
func (x *exporter) tableMapped(spec *table.Spec, name string) (*Table, error) {
	return x.table(spec, name+".rows", x.opts.Quantize, inference.Hash, func(f *outdir.File, r *rows) error {
		w, err := inference.NewWriter(f, spec.ID, r.layout, r.sorter.Len(), r.content)
		if err != nil {
			return err
		}
		if err := r.each(x, w.Add); err != nil {
			return err
		}
		return w.Close()
	})
}

// tableText writes a table as text.
func (x *exporter) tableText(spec *table.Spec, name string) (*Table, error) {
	source, err := x.source()
	if err != nil {
		return nil, err
	}
	h := text.Header{Table: spec, State: x.opts.State, Model: source}
	if x.opts.State {
		h.Lifecycle = x.model.Lifecycle[spec.ID]
	}
	return x.table(spec, name+".tsv", quant.F32, sameKey, func(f *outdir.File, r *rows) error {
		w, err := text.NewWriter(f, h)
		if err != nil {
			return err
		}
		floats := make([]float32, spec.Dim+r.state) // aligned, as records need not be
		err = r.each(x, func(key uint64, record []byte) error {
			copy(mem.Bytes(floats), record) // fp32 is the weights as they are
			return w.Row(key, floats)
		})
		if err != nil {
			return err
		}
		return w.Close()
	})
}

func sameKey(key uint64) uint64 { return key }

// source is what text files say of their model.
func (x *exporter) source() (json.RawMessage, error) {
	return json.Marshal(sourceOf(&x.model.Manifest))
}
