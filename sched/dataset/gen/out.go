package gen

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"psrt/sched/outfile"
)

// output is one file being written, under a temporary name until it is whole.
type output struct {
	path string
	file *outfile.File
	pack io.WriteCloser // the file itself if not compressed
	rows int64
}

// partPath puts the part's name before the extensions: a.tsv.gz, train gives
// a.train.tsv.gz.
func partPath(out, name string) string {
	if name == "" {
		return out
	}
	dir, base := filepath.Split(out)
	stem, ext, dotted := strings.Cut(base, ".")
	if dotted {
		ext = "." + ext
	}
	return dir + stem + "." + name + ext
}

func create(path string) (*output, error) {
	f, err := outfile.Create(path)
	if err != nil {
		return nil, writeError(path, err)
	}
	o := &output{path: path, file: f, pack: f}
	switch filepath.Ext(path) {
	case ".gz":
		o.pack, err = gzip.NewWriterLevel(f, gzip.BestSpeed)
	case ".zst":
		o.pack, err = zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	case ".lz4":
		o.pack = lz4.NewWriter(f)
	}
	if err != nil {
		o.abandon()
		return nil, writeError(path, err)
	}
	return o, nil
}

func (o *output) write(text []byte, rows int64) error {
	o.rows += rows
	if _, err := o.pack.Write(text); err != nil {
		return writeError(o.path, err)
	}
	return nil
}

// finish gives the file its name.
func (o *output) finish() error {
	var packed error
	if o.pack != io.WriteCloser(o.file) {
		packed = o.pack.Close()
	}
	err := errors.Join(packed, o.file.End(packed == nil))
	o.file = nil
	if err != nil {
		return writeError(o.path, err)
	}
	return nil
}

// abandon removes an unfinished file; behind finish it does nothing.
func (o *output) abandon() {
	if o.file != nil {
		_ = o.file.End(false) // what it was written for has failed already
		o.file = nil
	}
}

func writeError(path string, err error) error {
	return fmt.Errorf("gen: %s cannot be written: %w; check the directory, its rights and the free space", path, err)
}
