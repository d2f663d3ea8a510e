package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The same features with a label, with one that is none, and without: the same
// rows, if labels are ignored. Otherwise the second and third are refused.
func TestLabelsIgnored(t *testing.T) {
	const numbers = "1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\t12\t13"
	criteo := numbers + strings.Repeat("\taf", 25) + "\t"
	schema := func(header string) *Schema {
		return &Schema{Header: header, Columns: []Column{{Name: "a", Kind: "categorical"}, {Name: "y", Kind: "label"}, {Name: "b", Kind: "numeric"}}}
	}
	for _, c := range []struct {
		name                 string
		opts                 Options
		with, wrong, without string
		rows                 int
	}{
		{"libffm", Options{Format: LibFFM}, "1 0:1:1 1:2:1\n", "? 0:1:1 1:2:1\n", "0:1:1 1:2:1\n", 1},
		{"libsvm", Options{Format: LibSVM}, "1 7:1 8:2\n0 9:1\n", "7 7:1 8:2\n3 9:1\n", "7:1 8:2\n  9:1\n", 2},
		{"libfm", Options{Format: LibFM, Task: Regression}, "1 7:1\n", "nan 7:1\n", " 7:1\n", 1},
		{"criteo", Options{Format: Criteo}, "0\t" + criteo + "\n", "\t" + criteo + "\n", criteo + "\n", 1},
		{"csv, header", Options{Schema: schema("true")}, "a,y,b\nx,1,2\n", "a,y,b\nx,,2\n", "a,b\nx,2\n", 1},
		{"csv, auto", Options{Schema: schema("")}, "b,a,y\n2,x,1\n", "b,a,y\n2,x,high\n", "b,a\n2,x\n", 1},
		{"csv, no header", Options{Schema: schema("false")}, "x,1,2\n", "x,high,2\n", "x,2\n", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := func(text string, ignore bool) (string, error) {
				path := filepath.Join(t.TempDir(), "f")
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				opts := c.opts
				opts.IgnoreLabels = ignore
				src, err := Open(t.Context(), []string{path}, opts)
				if err != nil {
					return "", err
				}
				r, err := src.NewReader(t.Context(), Whole(16, 16), ReaderOptions{})
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				step, err := r.Next()
				if err != nil {
					return "", err
				}
				s := fmt.Sprint(step.Rows)
				for i := range step.Leaves[0].Labels {
					step.Leaves[0].Labels[i] = 0
					s += "; " + rowText(&step.Leaves[0], i)
				}
				return s, nil
			}
			want, err := read(c.with, false)
			if err != nil || !strings.HasPrefix(want, fmt.Sprint(c.rows)) {
				t.Fatalf("%q: %v", want, err)
			}
			for _, text := range []string{c.with, c.wrong, c.without} {
				if got, err := read(text, true); err != nil || got != want {
					t.Errorf("%q: rows %q, want %q (%v)", text, got, want, err)
				}
				if _, err := read(text, false); (err == nil) != (text == c.with) {
					t.Errorf("%q where labels count: %v", text, err)
				}
			}
		})
	}
}
