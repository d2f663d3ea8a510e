package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

const (
	metadataKey = "__metadata__"
	alignment   = 64
	// maxHeader is the format's.
	maxHeader = 100_000_000
)

type entry struct {
	Type    Type     `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Writer writes one file. It belongs to one goroutine.
type Writer struct {
	w    io.Writer
	left int64
	err  error
}

// NewWriter writes the header. It puts tensors into the order in which their
// bytes must come: those with large elements first, else as they were.
func NewWriter(w io.Writer, tensors []Tensor, metadata map[string]string) (*Writer, error) {
	sortTensors(tensors)
	header := bytes.NewBufferString("{")
	put := func(name string, v any) error {
		k, err := json.Marshal(name)
		if err != nil {
			return err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		header.Write(k)
		header.WriteByte(':')
		header.Write(b)
		return nil
	}
	if err := put(metadataKey, metadata); err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	names := map[string]bool{metadataKey: true}
	at := int64(0)
	for i := range tensors {
		t := &tensors[i]
		n, err := t.Bytes()
		if err == nil && names[t.Name] {
			err = fmt.Errorf("two tensors, or a tensor and the metadata, have the name %q", t.Name)
		}
		if err == nil {
			err = put(t.Name, entry{t.Type, append([]int64{}, t.Shape...), [2]int64{at, at + n}})
		}
		if err != nil {
			return nil, fmt.Errorf("safetensors: %w", err)
		}
		names[t.Name] = true
		at += n
	}
	header.WriteByte('}')
	for (8+header.Len())%alignment != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > maxHeader {
		return nil, fmt.Errorf("safetensors: a header of %d bytes, at most %d are allowed; export fewer tables at a time", header.Len(), maxHeader)
	}
	out := &Writer{w: w, left: at}
	_, out.err = w.Write(binary.LittleEndian.AppendUint64(nil, uint64(header.Len())))
	if out.err == nil {
		_, out.err = w.Write(header.Bytes())
	}
	return out, out.err
}

// Write is an io.Writer's: the bytes of all tensors, one behind the other.
func (w *Writer) Write(b []byte) (int, error) {
	if w.err == nil && int64(len(b)) > w.left {
		w.err = fmt.Errorf("safetensors: %d bytes more than the tensors have", int64(len(b))-w.left)
	}
	if w.err != nil {
		return 0, w.err
	}
	var n int
	n, w.err = w.w.Write(b)
	w.left -= int64(n)
	return n, w.err
}

// Close checks that all tensors are there.
func (w *Writer) Close() error {
	if w.err == nil && w.left != 0 {
		w.err = fmt.Errorf("safetensors: %d bytes of tensors are missing", w.left)
	}
	return w.err
}
