package export

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"psrt/rdma/mem"
	"psrt/tiers/export/inference"
	"psrt/tiers/export/outdir"
	"psrt/tiers/export/quant"
	"psrt/tiers/export/safetensors"
)

// Model is an inference model, mapped. Its tables may be read by several
// goroutines.
type Model struct {
	Content
	dir    string
	tables map[uint32]*inference.Table
	dense  map[uint32][]float32
}

// Open maps an inference model. Dense vectors are read and checked; tables are told
// from those of other models, and checked where they are read. Tables of an earlier
// psrt, without the digest for that, are read whole and compared with their SHA-256.
func Open(dir string) (*Model, error) {
	var err error
	for range 10 { // another export may take its place between two files
		var m *Model
		if m, err = open(dir); !errors.Is(err, outdir.ErrReplaced) {
			return m, err
		}
	}
	return nil, err
}

func open(dir string) (*Model, error) {
	e, err := outdir.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = e.Close() }() // nothing was written
	c, err := content(e)
	if err != nil {
		return nil, err
	}
	if e.Kind != Inference {
		return nil, &KindError{dir, e.Kind}
	}
	m := &Model{Content: *c, dir: dir, tables: map[uint32]*inference.Table{}, dense: map[uint32][]float32{}}
	if err := m.read(e); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// KindError is an export that cannot be read in place.
type KindError struct{ Dir, Kind string }

func (e *KindError) Error() string {
	if e.Kind == Text {
		return fmt.Sprintf("export: %s is a text export; make a model of it (psrt import --text %s --out DIR) or export with --format %s", e.Dir, e.Dir, Inference)
	}
	return fmt.Sprintf("export: %s is a %s export, which psrt writes for other programs; export with --format %s", e.Dir, e.Kind, Inference)
}

// BadInput: the user chose the directory.
func (e *KindError) BadInput() bool { return true }

// content is the manifest's, checked as far as names go.
func content(e *outdir.Export) (*Content, error) {
	path := e.Path(outdir.ManifestName)
	if e.Format < 1 || e.Format > format {
		return nil, outdir.Corrupt(path, "it has format %d, this psrt reads 1 to %d; use a newer psrt", e.Format, format)
	}
	var c Content
	if err := json.Unmarshal(e.Content, &c); err != nil {
		return nil, outdir.Corrupt(path, "%v", err)
	}
	seen := map[string]bool{}
	for i := range c.Tables {
		t := &c.Tables[i]
		if err := t.Spec.Validate(); err != nil {
			return nil, outdir.Corrupt(path, "%v", err)
		}
		key := fmt.Sprint("table ", t.Spec.ID)
		if !e.Has(t.File) || seen[key] {
			return nil, outdir.Corrupt(path, "%s is there twice, or its file %q is not", key, t.File)
		}
		seen[key] = true
	}
	for _, d := range c.Dense {
		key := fmt.Sprint("dense vector ", d.ID)
		if !e.Has(d.File) || seen[key] || d.Elements < 0 {
			return nil, outdir.Corrupt(path, "%s of %d elements is there twice, or its file %q is not", key, d.Elements, d.File)
		}
		seen[key] = true
	}
	return &c, nil
}

func (m *Model) read(e *outdir.Export) error {
	for i := range m.Tables {
		t := &m.Tables[i]
		f, err := e.Open(t.File)
		if err != nil {
			return err
		}
		mapped, err := inference.Map(f, e.Path(t.File))
		f.Close()
		if err != nil {
			return err
		}
		m.tables[t.Spec.ID] = mapped
		if err := sameFile(e, t, mapped); err != nil {
			return err
		}
		encoding, err := quant.Parse(t.Encoding)
		if want := (quant.Layout{Encoding: encoding, Dim: t.Spec.Dim, Exact: t.Exact}); err != nil || mapped.Layout != want ||
			mapped.Table != t.Spec.ID || mapped.Len() != t.Rows {
			return outdir.Corrupt(e.Path(t.File), "it has %d rows of table %d in %+v, the manifest says %+v", mapped.Len(), mapped.Table, mapped.Layout, *t)
		}
	}
	for i := range m.Dense {
		d := &m.Dense[i]
		v, err := readDense(e, d)
		if err != nil {
			return err
		}
		m.dense[d.ID] = v
	}
	return nil
}

// sameFile refuses a table's file that is not the one that the manifest describes.
func sameFile(e *outdir.Export, t *Table, mapped *inference.Table) error {
	if mapped.Version == 1 && t.Content == "" { // nothing but all of its bytes tells it from others
		return e.VerifyFile(context.Background(), t.File)
	}
	if got := mapped.Content.String(); got != t.Content {
		return outdir.Corrupt(e.Path(t.File), "its rows have the digest %s, the manifest says %s: it is of another model", got, t.Content)
	}
	return nil
}

// readDense reads a dense vector and compares its SHA-256.
func readDense(e *outdir.Export, d *Dense) ([]float32, error) {
	path := e.Path(d.File)
	f, err := e.Open(d.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, outdir.Explain("reading", path, err)
	}
	for _, info := range e.Files {
		if got := hex.EncodeToString(sum.Sum(nil)); info.Name == d.File && got != info.SHA256 {
			return nil, outdir.Corrupt(path, "its SHA-256 is %s, the manifest says %s", got, info.SHA256)
		}
	}
	t, err := safetensors.Read(f, path)
	if err != nil {
		return nil, err
	}
	r := t.Tensor(wholeName)
	if r == nil || r.Size() != 4*d.Elements {
		return nil, outdir.Corrupt(path, "it has no tensor %s of %d floats", wholeName, d.Elements)
	}
	v := make([]float32, d.Elements)
	if _, err := io.ReadFull(r, mem.Bytes(v)); err != nil {
		return nil, outdir.Explain("reading", path, err)
	}
	return v, nil
}

// Dir is where it was opened.
func (m *Model) Dir() string { return m.dir }

// Table is a table by its ID, nil if there is none.
func (m *Model) Table(id uint32) *inference.Table { return m.tables[id] }

// DenseVector is a dense vector by its ID, nil if there is none.
func (m *Model) DenseVector(id uint32) []float32 { return m.dense[id] }

// Close ends the mappings; nothing may read any more.
func (m *Model) Close() error {
	var errs []error
	for _, t := range m.tables {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

// Verify reads all of an export of any kind: each file's SHA-256, and of an
// inference model every block and row.
func Verify(ctx context.Context, dir string) (kind string, c *Content, err error) {
	e, err := outdir.Open(dir)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = e.Close() }() // nothing was written
	if c, err = content(e); err != nil {
		return e.Kind, nil, err
	}
	if err := e.Verify(ctx); err != nil {
		return e.Kind, c, err
	}
	if e.Kind != Inference {
		return e.Kind, c, nil
	}
	m := &Model{Content: *c, dir: dir, tables: map[uint32]*inference.Table{}, dense: map[uint32][]float32{}}
	err = m.read(e)
	for _, t := range m.tables {
		if err == nil {
			err = t.Verify(ctx)
		}
	}
	return e.Kind, c, errors.Join(err, m.Close())
}
