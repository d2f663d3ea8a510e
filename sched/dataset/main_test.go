package dataset

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// file writes a file into a fresh folder.
func file(t testing.TB, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// compressed packs text as gz, zst or lz4.
func compressed(t testing.TB, kind string, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var err, closed error
	switch kind {
	case "gz":
		w := gzip.NewWriter(&out)
		_, err = w.Write(text)
		closed = w.Close()
	case "zst":
		var w *zstd.Encoder
		if w, err = zstd.NewWriter(&out); err == nil {
			_, err = w.Write(text)
			closed = w.Close()
		}
	case "lz4":
		w := lz4.NewWriter(&out)
		_, err = w.Write(text)
		closed = w.Close()
	default:
		return text
	}
	if err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	return out.Bytes()
}
