package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Keys that are hashes are told by what the file says, those of one field and the first so
// many.
func TestNames(t *testing.T) {
	schema := &Schema{Header: "false", Missing: []string{"?"}, Columns: []Column{{Name: "y", Kind: "label"}, {Name: "sex", Kind: "categorical"},
		{Name: "age", Kind: "numeric", Transform: "bucketize", Boundaries: []float64{18, 65}}, {Name: "tags", Kind: "multi"}, {Name: "pay", Kind: "numeric"}}}
	csv := file(t, "csv", []byte("1,f,17,a|b,1\n0,m,18,,2\n1,?,70,b,3\n0,f,?,c,4\n"))
	row := func(count, category string) string {
		return "1\t" + count + strings.Repeat("\t", 13) + category + strings.Repeat("\t", 25) + "\n"
	}
	criteo := file(t, "criteo", []byte(row("-1", "af")+row("7", "0b")+row("2", "")+row("", "af")))
	for _, c := range []struct {
		path        string
		opts        Options
		field, most int
		want        string
	}{
		{csv, Options{Schema: schema}, 0, 64, "[f m missing]"},
		{csv, Options{Schema: schema}, 0, 2, "2 of them"},
		{csv, Options{Schema: schema}, 1, 64, "[below 18 from 18 to below 65 from 65 on missing]"},
		{csv, Options{Schema: schema}, 2, 64, "[a b c missing]"},
		{csv, Options{Schema: schema}, 3, 64, "[pay]"},
		{criteo, Options{Format: Criteo}, 0, 64, "[-1 2 from 6 to 7 missing]"},
		{criteo, Options{Format: Criteo}, 13, 64, "[0b af missing]"},
	} {
		src, err := Open(t.Context(), []string{c.path}, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		names := NewNames(uint16(c.field), c.most)
		src.NoteNames(names)
		if _, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{Threads: 2}); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(slices.Sorted(maps.Values(names.texts)))
		if len(names.texts) == c.most {
			got = fmt.Sprint(c.most, " of them")
		}
		if got != c.want {
			t.Errorf("field %d of %s: %s, want %s", c.field, c.path, got, c.want)
		}
	}
	names := NewNames(0, 3)
	names.noteText(1, []byte(strings.Repeat("x", 1000)))
	if got := names.Of(1); len(got) > maxName+3 || names.Of(2) != "" || (*Names)(nil).Of(1) != "" {
		t.Errorf("%d bytes of a name", len(got))
	}
}
