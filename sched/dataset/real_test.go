package dataset

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// realData names a file of the folder PSRT_DATA, or says why there is none.
func realData(t *testing.T, name string) string {
	dir := os.Getenv("PSRT_DATA")
	if dir == "" {
		t.Log("PSRT_DATA is not set: no real data to try; set it to a folder with ml1m/, criteo-small/, adult/, ...")
		return ""
	}
	path := filepath.Join(dir, name)
	for _, p := range []string{path, path + ".zst"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	t.Logf("%s is not in PSRT_DATA=%s", name, dir)
	return ""
}

// whole reads an epoch as one worker.
func whole(t *testing.T, src *Source, batch, micro int, opts ReaderOptions) (rows, occurrences int, positive float64) {
	t.Helper()
	r, err := src.NewReader(t.Context(), Whole(batch, micro), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		step, err := r.Next()
		if err == io.EOF {
			return rows, occurrences, positive
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i := range step.Leaves {
			b := &step.Leaves[i]
			n += b.Len()
			occurrences += len(b.Keys)
			for _, y := range b.Labels {
				positive += float64(y)
			}
		}
		if n != step.Rows || step.FirstRow != uint64(rows) {
			t.Fatalf("step %d: %d rows in leaves, Rows %d, FirstRow %d after %d rows", step.Index, n, step.Rows, step.FirstRow, rows)
		}
		rows += n
		step.Release()
	}
}

func TestRealFiles(t *testing.T) {
	adult := &Schema{Columns: []Column{
		{Name: "age", Kind: "numeric", Transform: "standardize"}, {Name: "workclass", Kind: "categorical"},
		{Name: "fnlwgt", Kind: "numeric", Transform: "log"}, {Name: "education", Kind: "categorical"},
		{Name: "years", Kind: "numeric", Transform: "bucketize", Buckets: 8}, {Name: "marital", Kind: "categorical"},
		{Name: "occupation", Kind: "categorical"}, {Name: "relationship", Kind: "categorical"},
		{Name: "race", Kind: "categorical"}, {Name: "sex", Kind: "categorical"},
		{Name: "gain", Kind: "numeric", Transform: "log"}, {Name: "loss", Kind: "numeric", Transform: "log"},
		{Name: "hours", Kind: "numeric", Transform: "standardize"}, {Name: "country", Kind: "categorical"},
		{Name: "income", Kind: "label", Positive: []string{">50K", ">50K."}, Negative: []string{"<=50K", "<=50K."}},
	}}
	for _, c := range []struct {
		name        string
		opts        Options
		format      Format
		rows        int
		fields      int
		occurrences int
	}{
		{"ml1m/ml1m.train.libffm", Options{}, LibFFM, 591209, 7, 0},
		{"ml1m/ml1m.valid.libffm", Options{}, LibFFM, 73901, 7, 0},
		{"criteo-small/wrd_train.tsv", Options{}, Criteo, 7200, 39, 7200 * 39},
		{"ipinyou-demo/ipinyou_demo.train.libsvm", Options{}, LibSVM, 26773, 16, 26773 * 16},
		{"adult/adult.data", Options{Schema: adult}, CSV, 32561, 14, 32561 * 14},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			path := realData(t, c.name)
			if path == "" {
				return
			}
			src, err := Open(t.Context(), []string{path}, c.opts)
			if err != nil {
				t.Fatal(err)
			}
			d := src.Describe()
			rows, occurrences, positive := whole(t, src, 4096, 256, ReaderOptions{Threads: 2})
			t.Logf("%v: %d rows, %d occurrences, mean label %.4f (sniffed %.4f over %d rows)", d.Format, rows, occurrences, positive/float64(rows), d.MeanLabel, d.SniffedRows)
			if d.Format != c.format || rows != c.rows || d.Fields != c.fields || c.occurrences != 0 && occurrences != c.occurrences {
				t.Errorf("read as %s, %d rows, %d fields, %d occurrences; want %s, %d, %d, %d", d.Format, rows, d.Fields, occurrences, c.format, c.rows, c.fields, c.occurrences)
			}
		})
	}
}
