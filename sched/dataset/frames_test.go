package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pierrec/lz4/v4"

	"psrt/csrc/seedtest"
)

// skippable is a frame of zstd and lz4 that holds no data.
func skippable(kind byte, content string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, magicSkippable|uint32(kind))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	return append(b, content...)
}

// legacyLZ4 packs text as `lz4 -l` does.
func legacyLZ4(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(lz4.LegacyOption(true)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// framed are files of the same two rows: all frames that hold none are passed over.
func framed(t testing.TB) map[string][]byte {
	one, two := []byte("1 0:1:1\n"), []byte("0 0:2:1\n")
	all := slices.Concat(one, two)
	zst := func(b []byte) []byte { return compressed(t, "zst", b) }
	l4 := func(b []byte) []byte { return compressed(t, "lz4", b) }
	gz := func(b []byte) []byte { return compressed(t, "gz", b) }
	old := func(b []byte) []byte { return legacyLZ4(t, b) }
	skip := skippable(0, "\x13\x00\x00\x00")
	long := skippable(15, strings.Repeat("\x00\xff", readAheadBytes))
	kernel := binary.LittleEndian.AppendUint32(old(all), uint32(len(all)))
	return map[string][]byte{
		"pzstd":                         slices.Concat(skip, zst(one), skip, zst(two)),
		"zstd, one skippable":           slices.Concat(skip, zst(all)),
		"zstd, three skippable":         slices.Concat(skip, long, skippable(7, ""), zst(all)),
		"zstd, skippable in the middle": slices.Concat(zst(one), skip, long, zst(two)),
		"zstd, skippable at the end":    slices.Concat(zst(all), skip, skippable(3, "")),
		"zstd, an empty frame":          slices.Concat(zst(nil), zst(one), zst(nil), zst(two)),
		"lz4, one skippable":            slices.Concat(skip, l4(all)),
		"lz4, three skippable":          slices.Concat(skippable(1, "x"), long, skip, l4(all)),
		"lz4, skippable in the middle":  slices.Concat(l4(one), long, skip, l4(two)),
		"lz4, skippable at the end":     slices.Concat(l4(all), skip),
		"lz4, an empty frame":           slices.Concat(l4(nil), l4(one), l4(nil), l4(two)),
		"lz4 legacy":                    old(all),
		"lz4 legacy, skippable":         slices.Concat(skip, old(all), long),
		"lz4 legacy twice":              slices.Concat(old(one), old(two)),
		"lz4 legacy, skippable between": slices.Concat(old(one), skip, old(two)),
		"lz4 legacy before a new frame": slices.Concat(old(one), l4(two)),
		"lz4 legacy behind a new frame": slices.Concat(l4(one), old(two)),
		"lz4 legacy of the kernel":      kernel,
		"gzip, an empty member":         slices.Concat(gz(nil), gz(one), gz(nil), gz(two)),
		"gzip, zeros behind it":         slices.Concat(gz(one), gz(two), make([]byte, 2*readAheadBytes)),
		"gzip, one zero behind it":      slices.Concat(gz(all), []byte{0}),
	}
}

func TestFrames(t *testing.T) {
	want := []string{"1 0:1:1", "0 0:2:1"}
	for name, packed := range framed(t) {
		got, warned, err := warnedRows(t, file(t, "x", packed))
		if err != nil || !slices.Equal(got, want) || len(warned) > 0 {
			t.Errorf("%s: %q, %q, %v", name, got, warned, err)
		}
	}
}

// warnedRows reads all rows twice, and returns what was warned of.
func warnedRows(t *testing.T, path string) (rows, warned []string, err error) {
	t.Helper()
	src, err := Open(t.Context(), []string{path}, Options{})
	if err != nil {
		return nil, nil, err
	}
	src.OnWarning(func(s string) { warned = append(warned, s) })
	if rows, err = rowsIn(t, src, Whole(2, 2), ReaderOptions{}); err != nil {
		return rows, warned, err
	}
	again, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{})
	if !slices.Equal(again, rows) {
		t.Errorf("%s: read again %q, at first %q", path, again, rows)
	}
	return rows, warned, err
}

// What follows the last gzip member and is none is ignored, with one warning; gzip(1) does so.
func TestBehindGzip(t *testing.T) {
	packed := compressed(t, "gz", []byte("1 0:1:1\n"))
	for _, behind := range []string{"\n", "x", "\x1f\x00", "garbage", "\x00\x00x", "\x00\x1f\x8b\x08", strings.Repeat("\x00", 2*readAheadBytes) + "x", strings.Repeat("y", 2*readAheadBytes)} {
		path := file(t, "x.gz", append(slices.Clone(packed), behind...))
		rows, warned, err := warnedRows(t, path)
		first := len(packed) + len(behind) - len(strings.TrimLeft(behind, "\x00"))
		want := fmt.Sprintf("from byte %d on are no gzip data", first)
		if err != nil || !slices.Equal(rows, []string{"1 0:1:1"}) || len(warned) != 1 || !strings.Contains(warned[0], want) || !strings.HasPrefix(warned[0], path) {
			t.Errorf("%.10q behind: %q, %v, warnings %q", behind, rows, err, warned)
		}
	}
}

// A frame that is cut short is an error wherever it stands, and so is what begins no frame.
func TestFramesCut(t *testing.T) {
	r := seedtest.Rand(t)
	var text bytes.Buffer
	for range 300 {
		fmt.Fprintf(&text, "1 0:%d:1\n", r.Uint64())
	}
	skip := skippable(0, "0123456789")
	for _, c := range []struct {
		name        string
		whole, tail []byte
	}{
		{"gzip", compressed(t, "gz", text.Bytes()), compressed(t, "gz", text.Bytes())},
		{"zstd", slices.Concat(skip, compressed(t, "zst", text.Bytes())), compressed(t, "zst", text.Bytes())},
		{"lz4", slices.Concat(skip, compressed(t, "lz4", text.Bytes())), compressed(t, "lz4", text.Bytes())},
		{"lz4 legacy", slices.Concat(skip, legacyLZ4(t, text.Bytes())), legacyLZ4(t, text.Bytes())},
		{"skippable behind zstd", compressed(t, "zst", text.Bytes()), skip},
		{"skippable behind lz4", compressed(t, "lz4", text.Bytes()), skip},
	} {
		for cut := 1; cut < len(c.tail); cut += 1 + len(c.tail)/40 {
			if c.name == "lz4 legacy" && cut == 4 {
				continue // a legacy frame ends with the file: one without blocks is whole
			}
			path := file(t, "x", slices.Concat(c.whole, c.tail[:cut]))
			rows, _, err := warnedRows(t, path)
			if bad := (*Error)(nil); !errors.As(err, &bad) || bad.Path != path || !strings.Contains(bad.Msg, "truncated") {
				t.Errorf("%s, cut to %d of %d bytes behind a whole one: %d rows, %v", c.name, cut, len(c.tail), len(rows), err)
			}
		}
	}
	for cut := 4; cut < len(skip); cut++ {
		if _, _, err := warnedRows(t, file(t, "x", skip[:cut])); err == nil || !strings.Contains(err.Error(), "the zstd or lz4 data ends too early") {
			t.Errorf("a skippable frame cut to %d bytes: %v", cut, err)
		}
	}
	for name, packed := range map[string][]byte{
		"text":       slices.Concat(skip, []byte("1 0:1:1\n")),
		"behind lz4": slices.Concat(compressed(t, "lz4", text.Bytes()), []byte("garbage")),
		"legacy":     slices.Concat(legacyLZ4(t, text.Bytes()), []byte("garbage")),
		"zstd":       slices.Concat(compressed(t, "zst", text.Bytes()), []byte("garbage")),
		"gzip":       slices.Concat(compressed(t, "gz", text.Bytes()), []byte("\x1f\x8b\x07garbage")),
	} {
		if _, _, err := warnedRows(t, file(t, "x", packed)); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
