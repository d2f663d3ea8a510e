package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"psrt/csrc/seedtest"
)

func thriftOf[T any](t *testing.T, from []byte) *T {
	t.Helper()
	v := new(T)
	if err := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(bytes.NewReader(from))).Decode(v); err != nil {
		t.Fatal(err)
	}
	return v
}

func thriftBytes(t *testing.T, v any) []byte {
	t.Helper()
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func footerOf(whole []byte) []byte {
	n := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	return whole[len(whole)-8-n : len(whole)-8]
}

// withFooter is a file with another footer.
func withFooter(whole, footer []byte) []byte {
	b := slices.Concat(whole[:len(whole)-8-len(footerOf(whole))], footer)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
}

// TestParquetPages: a page that says it has more bytes than the file, that it unpacks to
// what no packing does, or that it holds more values than its column has is refused before
// memory is taken for it; and so is one whose bytes are not those of its checksum.
func TestParquetPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	parquetFile(t, path, clicks(seedtest.Rand(t), 100), 50, parquet.Compression(&parquet.Uncompressed))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	meta := thriftOf[format.FileMetaData](t, footerOf(whole))
	column := func(name string) *format.ColumnMetaData {
		all := meta.RowGroups[0].Columns
		return &all[slices.IndexFunc(all, func(c format.ColumnChunk) bool { return c.MetaData.PathInSchema[0] == name })].MetaData
	}
	click, city := column("click").DataPageOffset, column("city").DictionaryPageOffset
	for _, c := range []struct {
		name   string
		at     int64
		damage func(h *format.PageHeader)
		says   string
	}{
		{"packed", click, func(h *format.PageHeader) { h.CompressedPageSize = 1 << 30 }, "1073741824 bytes"},
		{"unpacked", click, func(h *format.PageHeader) { h.UncompressedPageSize = 2_000_000_000 }, "2000000000 unpacked"},
		{"negative", click, func(h *format.PageHeader) { h.UncompressedPageSize = -5 }, "-5 unpacked"},
		{"values", click, func(h *format.PageHeader) { h.DataPageHeaderV2.V.NumValues, h.CompressedPageSize = 1<<30, 9 }, "1073741824 values"},
		{"dictionary", city, func(h *format.PageHeader) { h.DictionaryPageHeader.V.NumValues, h.CompressedPageSize = 1<<30, 9 }, "1073741824 values"},
		{"checksum", city, func(h *format.PageHeader) { h.CRC++ }, "checksum"},
	} {
		// The header, written anew and laid over the file: what follows it is not looked at
		// any more.
		h := thriftOf[format.PageHeader](t, whole[c.at:])
		c.damage(h)
		bad := slices.Clone(whole)
		copy(bad[c.at:], thriftBytes(t, h))
		_, err := parquetText(t, file(t, "bad.parquet", bad), clickSchema)
		if err == nil || !strings.Contains(err.Error(), "the page at") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	bad := slices.Clone(whole)
	bad[click+column("click").TotalCompressedSize-1] ^= 4
	if _, err := parquetText(t, file(t, "bad.parquet", bad), clickSchema); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a page with a wrong bit: %v", err)
	}
}

// TestParquetFooter: what a footer says is held against the file, and what cannot be read
// is told as that, not as damage.
func TestParquetFooter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.parquet")
	parquetFile(t, path, clicks(seedtest.Rand(t), 100), 50)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	children := func(n int32) func(m *format.FileMetaData) {
		return func(m *format.FileMetaData) { m.Schema[0].NumChildren = thrift.New(n) }
	}
	for _, c := range []struct {
		says   string
		damage func(m *format.FileMetaData)
	}{
		{"-1 rows", func(m *format.FileMetaData) { m.RowGroups[0].NumRows = -1 }},
		{"ends too early", func(m *format.FileMetaData) { m.RowGroups[0].NumRows++ }},
		{"groups of", children(1 << 30)},
		{"groups of", children(-7)},
		{"of a file of", func(m *format.FileMetaData) { m.RowGroups[1].Columns[1].MetaData.TotalCompressedSize = 1 << 40 }},
		{"lz4 in the framing of Hadoop, which cannot be read; write it with zstd", func(m *format.FileMetaData) { m.RowGroups[0].Columns[1].MetaData.Codec = format.Lz4 }},
		{"LZO, which cannot be read", func(m *format.FileMetaData) { m.RowGroups[0].Columns[1].MetaData.Codec = format.LZO }},
		{`column "click" of the Parquet file is encrypted`, func(m *format.FileMetaData) {
			m.RowGroups[0].Columns[1].CryptoMetadata.Value = new(format.EncryptionWithColumnKey)
		}},
	} {
		m := thriftOf[format.FileMetaData](t, footerOf(whole))
		if got, err := parquetText(t, file(t, "same.parquet", withFooter(whole, thriftBytes(t, m))), clickSchema); err != io.EOF || strings.Count(got, "\n") < 100 {
			t.Fatalf("a footer as it was: %v", err)
		}
		c.damage(m)
		_, err := parquetText(t, file(t, "bad.parquet", withFooter(whole, thriftBytes(t, m))), clickSchema)
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v; want %q", err, c.says)
		}
	}
	long := binary.AppendUvarint([]byte{0x29, 0xfc}, 1<<31-1) // field 2, a list of so many structs
	nested := slices.Concat([]byte{0x29}, bytes.Repeat([]byte{0x19}, 1<<20))
	for name, footer := range map[string][]byte{"a long list": long, "a long text": {0x48, 0xff, 0xff, 0xff, 0xff, 7}, "lists of lists": nested, "nothing": {}, "no kind": {0x1f}} {
		_, err := parquetText(t, file(t, "bad.parquet", withFooter(whole, footer)), clickSchema)
		if err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
	locked := slices.Concat([]byte("PARE"), whole[4:len(whole)-4], []byte("PARE"))
	if _, err := rowsOf(t, []string{file(t, "locked.parquet", locked)}, Options{Schema: schemaOf(t, clickSchema)}); err == nil || !strings.Contains(err.Error(), "is encrypted") {
		t.Errorf("an encrypted file: %v", err)
	}
}

// FuzzParquet: whatever a file is, it gives rows or an error, and no panic.
func FuzzParquet(f *testing.F) {
	r := seedtest.Rand(f)
	for _, o := range [][]parquet.WriterOption{{}, {parquet.DataPageVersion(1), parquet.Compression(&parquet.Zstd)}, {parquet.Compression(&parquet.Snappy)}} {
		path := filepath.Join(f.TempDir(), "x.parquet")
		parquetFile(f, path, clicks(r, 30), 20, o...)
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := parquetText(t, file(t, "x.parquet", b), clickSchema)
		if e := (*Error)(nil); err != io.EOF && !errors.As(err, &e) {
			t.Errorf("%T %v", err, err)
		}
	})
}
