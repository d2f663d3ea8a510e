package ckpt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// MaxBeside bounds one file beside a generation's parts, MaxBesides their number.
const (
	MaxBeside  = 1 << 30 // bytes
	MaxBesides = 1 << 16
)

// Beside is a file beside the parts of a generation: what the job, in its own words, has
// to know to go on exactly, and is no part of the model. It is written before the commit
// like a part, lives and dies with its generation, and what follows that has none of it.
type Beside struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// WriteBeside writes a file beside the parts of the generation that a ticket is for, in any
// process. It counts when the manifest names it.
func WriteBeside(ctx context.Context, ticket, name string, b []byte) (Beside, error) {
	w, err := WriterFor(ctx, ticket)
	if err != nil {
		return Beside{}, err
	}
	if err := checkBeside(name, len(b)); err != nil {
		return Beside{}, err
	}
	sum := sha256.Sum256(b)
	out := Beside{File: name + partSuffix, Bytes: int64(len(b)), SHA256: hex.EncodeToString(sum[:])}
	file := path.Join(w.dir, out.File)
	f, err := w.fs.Create(ctx, file)
	if err != nil {
		return Beside{}, explain("making", w.fs.Path(file), err)
	}
	if _, err := f.Write(b); err != nil {
		f.Abort()
		return Beside{}, explain("writing", w.fs.Path(file), err)
	}
	if err := f.Close(); err != nil {
		return Beside{}, explain("syncing", w.fs.Path(file), err)
	}
	return out, nil
}

func checkBeside(name string, n int) error {
	switch {
	case !validName(name):
		return fmt.Errorf("ckpt: a file beside a generation's parts named %q, want lower-case letters, digits and dashes", name)
	case n > MaxBeside:
		return fmt.Errorf("ckpt: %d bytes for %s beside a generation's parts, want at most %d; psrt train keeps less back with --compress fp16 or int8", n, name, MaxBeside)
	}
	return nil
}

// copyBeside writes what lies beside the model's own generation beside another's parts.
func (m *Model) copyBeside(ctx context.Context, ticket string) (all []Beside, err error) {
	for _, b := range m.Beside {
		text, err := m.ReadBeside(ctx, b)
		if err != nil {
			return nil, err
		}
		n, err := WriteBeside(ctx, ticket, strings.TrimSuffix(b.File, partSuffix), text)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// ReadBeside reads one of the model's own generation, and checks it.
func (m *Model) ReadBeside(ctx context.Context, b Beside) ([]byte, error) {
	name := path.Join(m.Generation, b.File)
	text, err := m.fs.Read(ctx, name, b.Bytes)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, m.lost(ctx, &m.Manifest, m.fs.Path(name))
		}
		return nil, explain("reading", m.fs.Path(name), err)
	}
	if sum := sha256.Sum256(text); int64(len(text)) != b.Bytes || hex.EncodeToString(sum[:]) != b.SHA256 {
		return nil, corrupt(m.fs.Path(name), "it is not the %d bytes that the manifest states, or their SHA-256 is another", b.Bytes)
	}
	return text, nil
}

// validBesides checks what is beside the parts, whose names are in files.
func (m *Manifest) validBesides(files map[string]bool) error {
	if len(m.Beside) > MaxBesides || len(m.Beside) > 0 && !m.ofHistory() {
		return fmt.Errorf("%d files beside the parts of format %d", len(m.Beside), m.Format)
	}
	for _, b := range m.Beside {
		name, ok := strings.CutSuffix(b.File, partSuffix)
		if !ok || !validName(name) || files[b.File] || b.Bytes < 0 || b.Bytes > MaxBeside || len(b.SHA256) != 2*sha256.Size {
			return fmt.Errorf("%q beside the parts, of %d bytes, SHA-256 %q: no file of ours, or named twice", b.File, b.Bytes, b.SHA256)
		}
		files[b.File] = true
	}
	return nil
}
