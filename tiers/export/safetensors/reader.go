package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"slices"

	"psrt/tiers/export/outdir"
)

// File is an opened file.
type File struct {
	Metadata map[string]string
	Tensors  []Tensor // in the order of their bytes

	path string
	f    *os.File
	at   map[string][2]int64 // in the file
}

// Open opens a file by its path.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, outdir.Explain("opening", path, err)
	}
	return Read(f, path)
}

// Read reads and checks the header of an open file, which is then the File's;
// path is for errors.
func Read(f *os.File, path string) (*File, error) {
	file := &File{path: path, f: f, at: map[string][2]int64{}}
	if err := file.read(); err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

func (f *File) read() error {
	st, err := f.f.Stat()
	if err != nil {
		return outdir.Explain("looking at", f.path, err)
	}
	var length [8]byte
	if st.Size() < 8 {
		return outdir.Corrupt(f.path, "it has %d bytes", st.Size())
	}
	if _, err := f.f.ReadAt(length[:], 0); err != nil {
		return outdir.Explain("reading", f.path, err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > st.Size()-8 {
		return outdir.Corrupt(f.path, "it has %d bytes and states a header of %d", st.Size(), n)
	}
	header := make([]byte, n)
	if _, err := f.f.ReadAt(header, 8); err != nil {
		return outdir.Explain("reading", f.path, err)
	}
	if err := f.parse(header, st.Size()-8-int64(n)); err != nil {
		return err
	}
	for name, at := range f.at {
		f.at[name] = [2]int64{at[0] + 8 + int64(n), at[1] + 8 + int64(n)}
	}
	return nil
}

// parse checks that the tensors cover data bytes without gaps.
func (f *File) parse(header []byte, data int64) error {
	if !bytes.HasPrefix(header, []byte{'{'}) {
		return outdir.Corrupt(f.path, "it is no safetensors file")
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(header, &all); err != nil {
		return outdir.Corrupt(f.path, "header: %v", err)
	}
	for name, raw := range all {
		if name == metadataKey {
			if err := json.Unmarshal(raw, &f.Metadata); err != nil {
				return outdir.Corrupt(f.path, "metadata: %v", err)
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return outdir.Corrupt(f.path, "tensor %q: %v", name, err)
		}
		t := Tensor{name, e.Type, e.Shape}
		n, err := t.Bytes()
		if err != nil {
			return outdir.Corrupt(f.path, "%v", err)
		}
		if e.Offsets[0] < 0 || e.Offsets[1] > data || e.Offsets[1]-e.Offsets[0] != n {
			return outdir.Corrupt(f.path, "tensor %q of %d bytes lies at %v of %d", name, n, e.Offsets, data)
		}
		f.at[name] = e.Offsets
		f.Tensors = append(f.Tensors, t)
	}
	slices.SortFunc(f.Tensors, func(a, b Tensor) int {
		x, y := f.at[a.Name], f.at[b.Name]
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a.Name, b.Name))
	})
	next := int64(0)
	for _, t := range f.Tensors {
		if at := f.at[t.Name]; at[0] != next {
			return outdir.Corrupt(f.path, "tensor %q begins at %d, the one before ends at %d", t.Name, at[0], next)
		}
		next = f.at[t.Name][1]
	}
	if next != data {
		return outdir.Corrupt(f.path, "its tensors have %d bytes, and there are %d", next, data)
	}
	return nil
}

// Tensor is a reader of a tensor's bytes, nil if there is none of that name.
func (f *File) Tensor(name string) *io.SectionReader {
	at, ok := f.at[name]
	if !ok {
		return nil
	}
	return io.NewSectionReader(f.f, at[0], at[1]-at[0])
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
