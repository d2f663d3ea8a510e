package export

import (
	"cmp"
	"slices"
	"strconv"

	"psrt/rdma/mem"
	"psrt/tiers/ckpt"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/safetensors"
	"psrt/tiers/export/text"
)

// block is a block of a dense vector.
type block struct {
	first         int64
	values, state []float32
}

// blocks are a vector's, in order. They are few: dense parameters fit into memory.
func (x *exporter) blocks(d *ckpt.DenseSpec) ([]block, error) {
	var all []block
	err := x.model.DenseBlocks(x.ctx, d.ID, func(first int64, values, state []float32) error {
		all = append(all, block{first, slices.Clone(values), slices.Clone(state)})
		return nil
	})
	slices.SortFunc(all, func(a, b block) int { return cmp.Compare(a.first, b.first) })
	return all, err
}

func (x *exporter) describe(d *ckpt.DenseSpec, info outdir.FileInfo) *Dense {
	return &Dense{Name: d.Name, ID: d.ID, Elements: d.Elements, Spec: d.Spec, File: info.Name, Bytes: info.Bytes}
}

// denseText writes a dense vector as text.
func (x *exporter) denseText(d *ckpt.DenseSpec, name string) (*Dense, error) {
	blocks, err := x.blocks(d)
	if err != nil {
		return nil, err
	}
	source, err := x.source()
	if err != nil {
		return nil, err
	}
	info, err := x.file(name+".tsv", func(f *outdir.File) error {
		h := text.Header{Dense: &text.Dense{Name: d.Name, ID: d.ID, Elements: d.Elements, Spec: d.Spec}, State: x.opts.State, Model: source}
		w, err := text.NewWriter(f, h)
		if err != nil {
			return err
		}
		for _, b := range blocks {
			if err := w.Block(b.first, b.values, b.state); err != nil {
				return err
			}
		}
		return w.Close()
	})
	return x.describe(d, info), err
}

// wholeName is the tensor with all of a dense vector; the parts of a model's
// layers, where they are known, are tensors instead.
const wholeName = "values"

// denseTensors writes a dense vector as tensors, for inference models, too.
func (x *exporter) denseTensors(d *ckpt.DenseSpec, name string) (*Dense, error) {
	blocks, err := x.blocks(d)
	if err != nil {
		return nil, err
	}
	tensors := []safetensors.Tensor{{Name: wholeName, Type: safetensors.F32, Shape: []int64{d.Elements}}}
	if views := x.opts.Views[d.ID]; x.opts.Kind == Safetensors && covers(views, d.Elements) {
		tensors = nil
		for _, v := range views {
			tensors = append(tensors, safetensors.Tensor{Name: v.Name, Type: safetensors.F32, Shape: []int64{v.Rows, v.Cols}})
		}
	}
	if x.opts.State {
		for i, b := range blocks {
			tensors = append(tensors, safetensors.Tensor{Name: "state." + strconv.Itoa(i), Type: safetensors.F32, Shape: []int64{int64(len(b.state))}})
		}
	}
	info, err := x.file(name+".safetensors", func(f *outdir.File) error {
		w, err := safetensors.NewWriter(f, tensors, x.metadata("dense", d.Name, d.ID))
		if err != nil {
			return err
		}
		for _, b := range blocks {
			_, _ = w.Write(mem.Bytes(b.values)) // Close tells
		}
		for _, b := range blocks {
			if x.opts.State {
				_, _ = w.Write(mem.Bytes(b.state))
			}
		}
		return w.Close()
	})
	return x.describe(d, info), err
}

// covers says whether views, which must be in order, are all of a vector.
func covers(views []View, elements int64) bool {
	next := int64(0)
	for _, v := range views {
		if v.Offset != next {
			return false
		}
		next += v.Rows * v.Cols
	}
	return next == elements && elements > 0
}
