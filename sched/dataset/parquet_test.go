package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"psrt/csrc/seedtest"
)

func processLives(pid int) bool { return syscall.Kill(pid, 0) == nil }

// click is a row of the files that tests write.
type click struct {
	Unused string   `parquet:"unused"`
	Click  int64    `parquet:"click"`
	Price  *float64 `parquet:"price,optional"`
	City   string   `parquet:"city,dict"`
	Tags   []string `parquet:"tags,list"`
	Ad     uint64   `parquet:"ad"`
	User   struct {
		Age int32 `parquet:"age"`
	} `parquet:"user"`
}

const clickSchema = `
columns:
  - {name: click, kind: label}
  - {name: price, kind: numeric, transform: log}
  - {name: nowhere, kind: ignored}
  - {name: city, kind: categorical}
  - {name: tags, kind: multi}
  - {name: ad, kind: categorical}
  - {name: user.age, kind: numeric, transform: bucketize, boundaries: [18, 30]}
`

func schemaOf(t testing.TB, text string) *Schema {
	t.Helper()
	s, err := ParseSchema("schema", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func clicks(r *rand.Rand, n int) []click {
	words := []string{"", "Rome", "São Paulo", `the "old" town`, "a,b", " blank ", "two\nlines", "cr\r"}
	all := make([]click, n)
	for i := range all {
		c := &all[i]
		c.Unused, c.Click, c.City, c.Ad = strings.Repeat("x", r.IntN(50)), int64(r.IntN(2)), words[r.IntN(len(words))], r.Uint64()
		c.User.Age = int32(r.IntN(60))
		if r.IntN(4) > 0 {
			x := r.NormFloat64() * 100
			c.Price = &x
		}
		for range r.IntN(4) {
			c.Tags = append(c.Tags, fmt.Sprint("tag", r.IntN(5)))
		}
	}
	return all
}

func parquetFile(t testing.TB, path string, all []click, group int, opts ...parquet.WriterOption) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[click](&b, append([]parquet.WriterOption{parquet.MaxRowsPerRowGroup(int64(group)), parquet.PageBufferSize(2000)}, opts...)...)
	if _, err := w.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// csvOf is what a naive reader would write for the same rows; without rows that csv
// cannot hold.
func csvOf(all []click) string {
	var b strings.Builder
	q := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	b.WriteString("click,price,nowhere,city,tags,ad,user.age\n")
	for _, c := range all {
		price := ""
		if c.Price != nil {
			price = strconv.FormatFloat(*c.Price, 'g', -1, 64)
		}
		fmt.Fprintf(&b, "%d,%s,,%s,%s,%d,%d\n", c.Click, price, q(strings.Trim(c.City, " \t")), strings.Join(c.Tags, "|"), c.Ad, c.User.Age)
	}
	return b.String()
}

// Rows of Parquet files are those of the same rows as csv, for every share, and
// whatever the row groups, pages and compression are.
func TestParquet(t *testing.T) {
	r := seedtest.Rand(t)
	for _, codec := range []parquet.WriterOption{parquet.Compression(&parquet.Uncompressed), parquet.Compression(&parquet.Snappy), parquet.Compression(&parquet.Zstd), parquet.Compression(&parquet.Gzip), parquet.Compression(&parquet.Brotli), parquet.Compression(&parquet.Lz4Raw)} {
		all := slices.DeleteFunc(clicks(r, 1+r.IntN(1000)), func(c click) bool { return strings.ContainsAny(c.City, "\n\r") })
		if len(all) < 2 {
			continue
		}
		for i := range all[:len(all)/2] { // pages that have nothing but nulls
			all[i].Price = nil
		}
		dir, cut := t.TempDir(), 1+r.IntN(len(all)-1)
		parquetFile(t, filepath.Join(dir, "a.parquet"), all[:cut], 1+r.IntN(400), codec, parquet.DataPageVersion(1))
		parquetFile(t, filepath.Join(dir, "b.bin"), all[cut:], 1+r.IntN(400), codec)
		share := Share{Batch: 30, Micro: 7, First: r.IntN(3), Last: 3 + r.IntN(3)}
		read := func(path string) []string {
			src, err := Open(t.Context(), []string{path}, Options{Schema: schemaOf(t, clickSchema)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := rowsIn(t, src, share, ReaderOptions{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		want := read(file(t, "rows.csv", []byte(csvOf(all))))
		if got := read(dir); !slices.Equal(got, want) {
			t.Fatalf("%d rows, share %+v:\n got %q\nwant %q", len(all), share, got, want)
		}
	}
}

// What lines of text cannot hold, cells of Parquet files can.
func TestParquetText(t *testing.T) {
	all := make([]click, 4)
	for i, s := range []string{"two\nlines", "cr\r", `"`, ""} {
		all[i].City, all[i].Click = s, 1
	}
	path := filepath.Join(t.TempDir(), "x")
	parquetFile(t, path, all, 10)
	schema := schemaOf(t, "columns:\n  - {name: city, kind: categorical}\n  - {name: click, kind: label}\n")
	got, err := rowsOf(t, []string{path}, Options{Schema: schema})
	want := []string{}
	for _, c := range all[:3] {
		want = append(want, fmt.Sprintf("1 0:%d:1", TextKey(0, []byte(c.City))))
	}
	want = append(want, fmt.Sprintf("1 0:%d:1", MissingKey(0)))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestParquetRefused(t *testing.T) {
	r := seedtest.Rand(t)
	path := filepath.Join(t.TempDir(), "x.parquet")
	all := clicks(r, 50)
	all[33].Tags = []string{"a|b"}
	parquetFile(t, path, all, 20)
	for _, c := range []struct{ schema, says string }{
		{"columns:\n  - {name: click, kind: label}\n  - {name: cty, kind: categorical}\n", `no column "cty", did you mean "city"?`},
		{"columns:\n  - {name: click, kind: label}\n  - {name: tags, kind: categorical}\n", "give it kind: multi"},
		{"columns:\n  - {name: click, kind: label}\n  - {name: city, kind: numeric}\n", "is not a number"},
		{"columns:\n  - {name: click, kind: label}\n  - {name: tags, kind: multi}\n", ":34: tags: the value \"a|b\" holds the separator"},
		{"columns:\n  - {name: price, kind: label}\n  - {name: tags, kind: multi, separator: \";\"}\n", "label"},
	} {
		_, err := rowsOf(t, []string{path}, Options{Schema: schemaOf(t, c.schema)})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q", c.schema, err, c.says)
		}
	}
	if _, err := rowsOf(t, []string{path}, Options{}); err == nil || !strings.Contains(err.Error(), "--schema") {
		t.Errorf("without a schema: %v", err)
	}
	// Rows to predict on may have no label.
	schema := schemaOf(t, "columns:\n  - {name: label, kind: label}\n  - {name: city, kind: categorical}\n")
	if got, err := rowsOf(t, []string{path}, Options{Schema: schema, IgnoreLabels: true}); err != nil || len(got) != 50 {
		t.Errorf("without labels: %d rows, %v", len(got), err)
	}
}

// Booleans as runs, as of pages of version 2, are the same as in bits.
func TestParquetRunsOfBooleans(t *testing.T) {
	const schema = "columns:\n  - {name: click, kind: label}\n  - {name: member, kind: categorical}\n"
	r := seedtest.Rand(t)
	member := make([]bool, 3000)
	for i, run := 0, 0; i < len(member); i, run = i+1, run-1 {
		if member[i] = i > 0 && member[i-1]; run == 0 {
			member[i], run = !member[i], 1+r.IntN(1+r.IntN(40))
		}
	}
	for _, encoding := range []encoding.Encoding{&parquet.Plain, &parquet.RLE} {
		for version := 1; version <= 2; version++ {
			var b bytes.Buffer
			node := parquet.Group{"click": parquet.Int(32), "member": parquet.Encoded(parquet.Leaf(parquet.BooleanType), encoding)}
			w := parquet.NewWriter(&b, parquet.NewSchema("rows", node), parquet.DataPageVersion(version), parquet.PageBufferSize(100))
			want := ""
			for i, m := range member {
				if _, err := w.WriteRows([]parquet.Row{{parquet.Int32Value(int32(i%2)).Level(0, 0, 0), parquet.BooleanValue(m).Level(0, 0, 1)}}); err != nil {
					t.Fatal(err)
				}
				want += fmt.Sprintf("%d,%s\n", i%2, map[bool]string{true: "1", false: "0"}[m])
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := parquetText(t, file(t, "x.parquet", b.Bytes()), schema); err != io.EOF || got != want {
				t.Errorf("%v in pages of version %d: %v\n got %.200q\nwant %.200q", encoding, version, err, got, want)
			}
		}
	}
}

// parquetText is a Parquet file as csv, and how it ended.
func parquetText(t testing.TB, path, schema string) (string, error) {
	t.Helper()
	p, err := openParquet(path, &Options{Schema: schemaOf(t, schema)})
	if err != nil {
		return "", err
	}
	defer p.Close()
	var b strings.Builder
	for {
		row, err := p.next()
		if err != nil {
			return b.String(), err
		}
		b.Write(append(row, '\n'))
	}
}

// A damaged file is an error or rows, never a crash; a file cut short is an error.
func TestParquetDamaged(t *testing.T) {
	r := seedtest.Rand(t)
	path := filepath.Join(t.TempDir(), "x.parquet")
	parquetFile(t, path, clicks(r, 500), 200)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Schema: schemaOf(t, clickSchema)}
	for _, cut := range []int{4, 5, 11, 12, len(whole) / 2, len(whole) - 8, len(whole) - 1} {
		got, err := rowsOf(t, []string{file(t, "cut.parquet", whole[:cut])}, opts)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("cut to %d of %d: %d rows, %v", cut, len(whole), len(got), err)
		}
	}
	for range 300 {
		bad := slices.Clone(whole)
		for range 1 + r.IntN(3) {
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		}
		_, err := rowsOf(t, []string{file(t, "bad.parquet", bad)}, opts)
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%T %v", err, err)
		}
	}
}
