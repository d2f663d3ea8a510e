package dataset

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// benchLines makes lines of one format, alike for everyone.
func benchLines(format Format) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	lines := make([][]byte, 4096)
	for i := range lines {
		var b bytes.Buffer
		fmt.Fprint(&b, i&1)
		switch format {
		case LibFFM: // short ids, as ml1m has them
			for f := range 8 {
				fmt.Fprintf(&b, " %d:%d:%v", f, r.IntN(10000), []float64{1, 1, 1, 0.333333}[f&3])
			}
		case LibSVM: // hashed ids
			for range 20 {
				fmt.Fprintf(&b, " %d:%.4f", r.Uint64(), r.Float64())
			}
		case Criteo:
			for range criteoInts {
				fmt.Fprintf(&b, "\t%d", r.IntN(1<<r.IntN(16)))
			}
			for range criteoCats {
				fmt.Fprintf(&b, "\t%08x", r.Uint32())
			}
		case CSV:
			for range 10 {
				fmt.Fprintf(&b, ",%d,word%d", r.IntN(1000), r.IntN(1000))
			}
		}
		lines[i] = b.Bytes()
	}
	return lines
}

// BenchmarkParse is one core's parsing speed, rows to leaves.
func BenchmarkParse(b *testing.B) {
	schema := &Schema{Columns: []Column{{Name: "y", Kind: "label"}}}
	for i := range 10 {
		schema.Columns = append(schema.Columns, Column{Name: fmt.Sprint("n", i), Kind: "numeric"}, Column{Name: fmt.Sprint("c", i), Kind: "categorical"})
	}
	csv := newCSVParser(schema, labelRule{CTR, unknownNegative})
	for format, p := range map[Format]lineParser{
		LibFFM: ffm(8, CTR), LibSVM: svm(20, CTR), Criteo: newCriteoParser(labelRule{CTR, unknownNegative}), CSV: csv,
	} {
		b.Run(string(format), func(b *testing.B) {
			lines := benchLines(format)
			size := 0
			for _, l := range lines {
				size += len(l) + 1
			}
			var batch Batch
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				batch.Reset()
				for _, l := range lines {
					if e := p.parse(l, new(input), &batch); e != nil {
						b.Fatal(e.msg)
					}
				}
			}
		})
	}
}

// BenchmarkEpoch is a whole epoch through files, scanner and parsers.
func BenchmarkEpoch(b *testing.B) {
	text := bytes.Join(benchLines(LibFFM), []byte("\n"))
	text = bytes.Repeat(append(text, '\n'), 100)
	src, err := Open(b.Context(), []string{file(b, "f", text)}, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, opts := range []ReaderOptions{{}, {Shuffle: true}, {Mode: Memory}, {Mode: Memory, Shuffle: true}} {
		b.Run(fmt.Sprintf("%s,shuffle=%v", opts.Mode, opts.Shuffle), func(b *testing.B) {
			r, err := src.NewReader(b.Context(), Whole(4096, 256), opts)
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			b.SetBytes(int64(len(text)))
			for n := 0; b.Loop(); n++ {
				if err := r.Epoch(n); err != nil {
					b.Fatal(err)
				}
				rows := 0
				for {
					step, err := r.Next()
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					rows += step.Rows
					step.Release()
				}
				b.ReportMetric(float64(rows)*float64(n+1)/b.Elapsed().Seconds(), "rows/s")
			}
		})
	}
}

// BenchmarkParquet is one core's speed of rows out of a Parquet file, without their parsing.
func BenchmarkParquet(b *testing.B) {
	const n = 100_000
	path := filepath.Join(b.TempDir(), "x.parquet")
	parquetFile(b, path, clicks(rand.New(rand.NewPCG(1, 2)), n), 40_000, parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(256<<10))
	opts := Options{Schema: schemaOf(b, clickSchema)}
	b.ReportAllocs()
	for b.Loop() {
		p, err := openParquet(path, &opts)
		if err != nil {
			b.Fatal(err)
		}
		rows := 0
		for ; err == nil; rows++ {
			_, err = p.next()
		}
		if p.Close(); err != io.EOF || rows-1 != n {
			b.Fatalf("%d rows, %v", rows-1, err)
		}
	}
	b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
