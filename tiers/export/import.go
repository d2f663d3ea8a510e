package export

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"math"
	"os"
	"path/filepath"
	"strings"

	"psrt/rdma/mem"
	"psrt/tiers/ckpt"
	"psrt/tiers/export/extsort"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/text"
	"psrt/tiers/table"
)

// ImportOptions say how text becomes a model.
type ImportOptions struct {
	// Slots is the cut of the key space where the text says none.
	Slots  int
	Memory int64 // for sorting, in bytes; 0 is DefaultMemory
}

// Imported is what came of it.
type Imported struct {
	Tables, Dense int
	Rows          int64
	Digest        string
	// Exported is the digest that the text says it had, "" if it says none.
	Exported string
	// Edited: a file had been changed by hand, so there is no saying that the model
	// is the one that was exported. Partial: it has not all of that one's tables.
	Edited, Partial, WeightsOnly bool
}

// importer is an import under way.
type importer struct {
	ctx     context.Context
	opts    ImportOptions
	in      *ckpt.Incoming
	w       *ckpt.Writer
	hasher  table.RowHasher
	sum     table.Digest
	m       ckpt.Manifest
	out     Imported
	slots   []ckpt.Range
	scratch string
}

// Import makes a model directory of text: of the files given, or of those of the
// text exports given. The model in out, if there is one, is replaced when all went
// well.
func Import(ctx context.Context, paths []string, out string, o ImportOptions) (*Imported, error) {
	sources, err := openSources(paths)
	defer func() {
		for _, s := range sources {
			s.f.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	from, err := agree(sources)
	if err != nil {
		return nil, err
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if from.Slots < 1 {
		from.Slots = o.Slots
	}
	in, err := ckpt.Begin(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Abort() }() // nothing after Commit
	im := &importer{ctx: ctx, opts: o, in: in, slots: []ckpt.Range{{First: 0, Last: int64(from.Slots)}}}
	im.out.WeightsOnly = !sources[0].State
	im.w = ckpt.NewWriter(in.Path(), im.out.WeightsOnly)
	im.m = ckpt.Manifest{Meta: from.Meta, WeightsOnly: im.out.WeightsOnly, Slots: from.Slots}
	// Sorting spills into the directory that is removed when it is over.
	im.scratch = filepath.Join(in.Path(), "spill.part")
	for _, s := range sources {
		read := im.rows
		if s.Dense != nil {
			read = im.blocks
		}
		if err := read(s); err != nil {
			return nil, err
		}
		if err := s.compare(); err != nil {
			return nil, err
		}
		im.out.Edited = im.out.Edited || s.Edited
	}
	im.out.Tables, im.out.Dense = len(im.m.Tables), len(im.m.Dense)
	im.out.Partial = im.out.Tables != from.Tables || im.out.Dense != from.Dense
	if err := im.digest(from, sources); err != nil {
		return nil, err
	}
	return &im.out, in.Commit(im.m)
}

// digest compares the model with the one that was exported, where it should be the
// same.
func (im *importer) digest(from *Source, sources []*source) error {
	same := !im.out.Edited && !im.out.Partial && !im.out.WeightsOnly
	im.m.Digest = im.sum.String()
	if len(im.m.Lifecycle) > 0 {
		// Rows that lag behind their table's history count as if they did not, which
		// is for their owner to compute.
		im.m.Digest = ""
		if same {
			im.m.Digest = from.Digest
		}
	}
	im.out.Digest, im.out.Exported = im.m.Digest, from.Digest
	if same && from.Digest != "" && im.m.Digest != from.Digest {
		return outdir.Corrupt(sources[0].path, "the model has digest %s, the one that was exported had %s", im.m.Digest, from.Digest)
	}
	return nil
}

// rows reads a table. Rows may come in any order; a key twice is refused.
func (im *importer) rows(s *source) error {
	spec := *s.Table
	sorter := extsort.New(extsort.Config{RecordBytes: spec.RowBytes(), Memory: im.opts.Memory, Path: im.scratch})
	defer func() { _ = sorter.Close() }()   // again, after an error
	record := make([]byte, spec.RowBytes()) // of a model without state, zeros behind the weights
	err := s.Rows(func(key uint64, row []float32) error {
		copy(record, mem.Bytes(row))
		return sorter.Add(key, record)
	})
	if err != nil {
		return err
	}
	if im.ctx.Err() != nil {
		return context.Cause(im.ctx)
	}
	w, err := im.w.Rows(fmt.Sprintf("t%d", spec.ID), spec, im.slots)
	if err != nil {
		return err
	}
	defer w.Abort()
	row := make([]float32, spec.RowFloats())
	err = sorter.Each(func(key uint64, record []byte) error {
		copy(mem.Bytes(row), record)
		if !im.out.WeightsOnly {
			im.sum.Add(im.hasher.Hash(spec.ID, key, record))
		}
		return w.Add(key, row)
	})
	var twice *extsort.DuplicateError
	if errors.As(err, &twice) {
		return outdir.Corrupt(s.path, "key %d has two rows", twice.Number)
	}
	if err != nil {
		return err
	}
	if s.Lifecycle != "" {
		if im.m.Lifecycle == nil {
			im.m.Lifecycle = map[uint32]string{}
		}
		im.m.Lifecycle[spec.ID] = s.Lifecycle
	}
	im.out.Rows += sorter.Len()
	im.m.Tables = append(im.m.Tables, spec)
	p, err := w.Close()
	im.m.Parts = append(im.m.Parts, p)
	return errors.Join(err, sorter.Close())
}

// denseTable stands for a table's ID in the digest of a dense block.
const denseTable = math.MaxUint32

// blocks reads a dense vector.
func (im *importer) blocks(s *source) error {
	d := s.Dense
	w, err := im.w.Dense(fmt.Sprintf("d%d", d.ID), d.ID)
	if err != nil {
		return err
	}
	defer w.Abort()
	next, n := int64(0), uint64(0)
	err = s.Blocks(func(first int64, values, state []float32) error {
		if first != next {
			return outdir.Corrupt(s.path, "block %d begins at %d, want %d: blocks must be in order and whole", n, first, next)
		}
		next += int64(len(values))
		if !im.out.WeightsOnly {
			both := append(append([]float32(nil), values...), state...)
			im.sum.Add(im.hasher.Hash(denseTable, n, mem.Bytes(both)))
		}
		n++
		return w.Add(first, values, state)
	})
	if err != nil {
		return err
	}
	if next != d.Elements {
		return outdir.Corrupt(s.path, "the blocks have %d elements, the vector %d", next, d.Elements)
	}
	im.m.Dense = append(im.m.Dense, ckpt.DenseSpec{Name: d.Name, ID: d.ID, Elements: d.Elements, Spec: d.Spec})
	p, err := w.Close()
	im.m.Parts = append(im.m.Parts, p)
	return err
}

// source is a text file being read.
type source struct {
	*text.Reader
	f    *os.File
	path string
	sum  hash.Hash
	want string  // SHA-256 as the manifest beside the file states it, "" where none does
	from *Source // what it says of its model, nil if it says nothing
}

// openSources opens all files, and reads their headers.
func openSources(paths []string) (sources []*source, err error) {
	var files []string
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, outdir.Explain("opening", p, err)
		}
		if !st.IsDir() {
			files = append(files, p)
			continue
		}
		inDir, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(p), "*.tsv"))
		if err == nil && len(inDir) == 0 {
			err = outdir.Refuse("export: %s has no .tsv file; give the --out directory of psrt export --format %s, or files of it", p, Text)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, inDir...)
	}
	for _, p := range files {
		s, err := openSource(p)
		if err != nil {
			return sources, err
		}
		sources = append(sources, s)
	}
	if len(sources) == 0 {
		return nil, outdir.Refuse("export: no text to import; name the --out directory of a text export, or files of it")
	}
	return sources, nil
}
