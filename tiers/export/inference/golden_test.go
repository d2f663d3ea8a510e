package inference

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"psrt/tiers/export/quant"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew (only for a new format)")

var goldenLayouts = []quant.Layout{
	{Encoding: quant.F32, Dim: 3}, {Encoding: quant.F16, Dim: 3}, {Encoding: quant.I8, Dim: 3, Exact: 1},
}

// goldenRows are weights that every encoding keeps as they are.
func goldenRows() map[uint64][]float32 {
	rows := map[uint64][]float32{}
	for i := range uint64(400) {
		rows[i*0x123456789abcdef] = []float32{float32(i) / 4, 127, float32(i%100) - 50}
	}
	return rows
}

// TestGolden: files of every format open for ever, and those of the present one
// are written as they were.
func TestGolden(t *testing.T) {
	rows := goldenRows()
	for format := 1; format <= Format; format++ {
		for _, l := range goldenLayouts {
			path := filepath.Join("testdata", fmt.Sprintf("format%d-%v.rows", format, l.Encoding))
			now := build(t, 42, l, rows)
			if *rewrite && format == Format {
				check(t, os.MkdirAll("testdata", 0o777))
				check(t, os.WriteFile(path, now, 0o666))
			}
			b, err := os.ReadFile(path)
			check(t, err)
			if format == Format && !bytes.Equal(b, now) {
				t.Errorf("%s is not what is written now: a format never changes", path)
			}
			table := open(t, b)
			if table.Table != 42 || table.Layout != l || table.Len() != 400 {
				t.Errorf("%s: %+v with %d rows", path, table.Header, table.Len())
			}
			check(t, table.Verify(context.Background()))
			dst := make([]float32, 3)
			for k, w := range rows {
				if n, err := table.Gather([]uint64{k}, dst); n != 1 || err != nil || dst[0] != w[0] || dst[1] != w[1] || dst[2] != w[2] {
					t.Errorf("%s: key %d is %v, want %v; %v", path, k, dst, w, err)
				}
			}
		}
	}
}
