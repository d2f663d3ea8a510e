package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

const clicksYAML = "columns:\n- {name: click, kind: label, positive: [\"1\"]}\n- {name: user, kind: categorical}\n- {name: item, kind: categorical}\n"

// A header that fits the schema in part is refused: read as a row it would put columns at wrong
// places. A first line that is a row is read as one, and a note says so.
func TestHeaderInPart(t *testing.T) {
	const rows = "1,u1,i1\n0,u2,i2\n1,u1,i3\n0,u2,i1\n"
	numbers := strings.NewReplacer("u", "", "i", "").Replace(rows)
	wide := "columns:\n- {name: y, kind: label, positive: [a]}\n"
	names, cells := "y", "a"
	for i := range 29 {
		wide += fmt.Sprintf("- {name: column%d, kind: categorical}\n", i)
		names, cells = fmt.Sprintf("%s,column%d", names, i), cells+",x"
	}
	for _, c := range []struct {
		name, schema, text string
		ignore             bool
		rows               int
		want               string // an error, or a note
	}{
		{"case and order", clicksYAML, "Item,User,Click\ni1,u1,1\ni2,u2,0\ni1,u3,1\ni2,u1,0\n", false, 0, `data:1:1: the first line looks like a header (it has "Item", as column "item" of the schema but for its spelling), but has no column "click" (did you mean Click?), "user" (did you mean User?), "item" (did you mean Item?); it has "Item,User,Click".`},
		{"one renamed", clicksYAML, "click,uid,item\n" + rows, false, 0, `has no column "user"; it has "click,uid,item"`},
		{"one of 30 in another case", wide, strings.Replace(names, "n17", "N17", 1) + "\n" + cells + "\n", false, 0, `has no column "column17" (did you mean columN17?)`},
		{"spelling", clicksYAML, "click,User Id,item\n" + rows, false, 0, `has no column "user"`},
		{"separators in names", strings.ReplaceAll(clicksYAML, "user", "user_id"), "Click,User Id,item\n" + rows, false, 0, `"user_id" (did you mean User Id?)`},
		{"no name fits", clicksYAML, "clk,uid,iid\n" + numbers, false, 0, `looks like a header (numbers stand below its "clk")`},
		{"no name fits, categories", clicksYAML, "uid,iid\n1,2\n3,4\n", true, 0, `numbers stand below its "uid"`},
		{"one column of numbers", clicksYAML, "uid,iid\na,2\nb,4\nc,5\n", true, 0, `numbers stand below its "iid"`},
		{"multi", "columns:\n- {name: y, kind: label}\n- {name: m, kind: multi}\n", "tags\n1|2\n3\n4|5|6\n", true, 0, `numbers stand below its "tags"`},
		{"without its label", clicksYAML, "User,item\nu1,i1\n", true, 0, `has no column "user" (did you mean User?)`},
		{"a label nobody reads", clicksYAML, "Click,user,item\n1,u1,i1\n", true, 0, `header column "Click" is not in the schema, did you mean "click"?`},
		{"twice", clicksYAML + "rest: ignored\n", "click,user,item,user\n" + rows, false, 0, `data:1:1: the header has column "user" twice`},
		{"required", clicksYAML + "header: \"true\"\n", "Click,user,item\n" + rows, false, 0, `data:1:1: the header has no column "click" (did you mean Click?); it has`},
		{"denied", clicksYAML + "header: \"false\"\n", "item,user,click\n" + rows, false, 0, `the schema says header: "false"; remove the line`},
		{"again", clicksYAML, "click,user,item\n" + rows + "click,user,item\n" + rows, false, 0, "data:6:1: the line holds the column names again"},

		{"a header", clicksYAML, "item,user,click\ni1,u1,1\n", false, 1, ""},
		{"none", clicksYAML, rows, false, 4, "no header: columns are read in the schema's order (click, user, item)"},
		{"none, and no label", clicksYAML, "u1,i1\nu2,i2\n", true, 2, "no header: columns are read in the schema's order (user, item)"},
		{"a value like a name", clicksYAML, "1,item,a\n0,user,x\n", false, 2, "no header"},
		{"a value like a name that comes again", clicksYAML, "user,a\nitem,b\nuser,c\n", true, 3, "no header"},
		{"texts of a column of numbers", clicksYAML, "unknown,N/A\n1,2\n3,4\n5,6\n", true, 3 + 1, "no header"},
		{"hexadecimal ids", clicksYAML, "ab3f,c1d2\n1123,2001\n3034,4005\n5056,6006\n", true, 4, "no header"},
		{"a text above two numbers", clicksYAML, "u,v7\nx,2\nx,4\n", true, 3, "no header"},
		{"told so", clicksYAML + "header: \"false\"\n", "1,user,a\n0,User,b\n", false, 2, ""},
	} {
		src, err := Open(t.Context(), []string{file(t, "data", []byte(c.text))}, Options{Schema: schemaOf(t, c.schema), IgnoreLabels: c.ignore})
		var got []string
		if err == nil {
			got, err = rowsIn(t, src, Whole(4, 4), ReaderOptions{})
		}
		switch {
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) || len(got) != c.rows:
			t.Errorf("%s: %d rows, %v; want %d, %q", c.name, len(got), err, c.rows, c.want)
		case err == nil && (c.want == "") != (len(src.Describe().Notes) == 0) || err == nil && !strings.Contains(strings.Join(src.Describe().Notes, "; "), c.want):
			t.Errorf("%s: %q, want %q", c.name, src.Describe().Notes, c.want)
		}
	}
}

// A stream decides about each file as Open does: each file that comes has its own first line.
func TestStreamHeaders(t *testing.T) {
	schema := schemaOf(t, clicksYAML)
	key := func(field int, s string) string { return fmt.Sprintf("%d:%d:1", field, TextKey(field, []byte(s))) }
	long := "item,user,click\n" + strings.Repeat("i1,u1,1\n", 250)
	for _, c := range []struct {
		text, want string
		rows       int
	}{
		{long, "", 250},
		{strings.Repeat("\n1,u1,i1\n", 250), "", 250},
		{"Item,User,Click\ni1,u1,1\n", `x:1:1: the first line looks like a header`, 0},
		{"# made today\nItem,User,Click\ni1,u1,1\n", `x:2:1: the first line looks like a header`, 0},
		{"uid,iid,clk\n1,2,3\n4,5,6\n7,8,9\n", `numbers stand below its "uid"`, 0},
		{"1,u1,i1\n" + strings.Repeat("1,u1,i1\n", 40) + "1,u1\n", `x:42:5: the line has 2 cells`, 40},
		{"1,u1,i1\n" + strings.Repeat("\n1,u1,i1\n", 240) + "1,u1\n", `x:482:5: the line has 2 cells`, 240},
		{"1,u1,i1\n1,\"u1,i1\n", `x:2:3: the quote does not end`, 0},
	} {
		path := file(t, "x", []byte(c.text))
		src, err := NewStream(given{{File: path, Size: int64(len(c.text)), Rows: 7}, {File: path, Size: int64(len(c.text)), From: 7}}, 0, Options{Format: CSV, Fields: 2, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		got, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{})
		if c.want == "" && (err != nil || len(got) != c.rows || slices.ContainsFunc(got, func(row string) bool {
			return row != "1 "+key(0, "u1")+" "+key(1, "i1") && row != "1 "+key(1, "i1")+" "+key(0, "u1")
		})) {
			t.Errorf("%.30q: %d rows, %v", c.text, len(got), err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || len(got) < c.rows) {
			t.Errorf("%.30q: %d rows, %v; want %q", c.text, len(got), err, c.want)
		}
	}
}

// Where files of a stream begin to come in another form, a note says so, once.
func TestStreamNotes(t *testing.T) {
	var feed given
	for i, text := range []string{"click,user,item\n1,u,i\n", "1,u,i\n", "1,u,i\n", "# x\nclick,user,item\n1,u,i\n"} {
		feed = append(feed, Entry{File: file(t, fmt.Sprint("f", i), []byte(text)), Size: int64(len(text))})
	}
	src, err := NewStream(feed, 0, Options{Format: CSV, Fields: 2, Schema: schemaOf(t, clicksYAML)})
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	rows, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{Note: func(s string) { notes = append(notes, s) }})
	if want := []string{"no header in " + feed[1].File + ": columns are read in the schema's order (click, user, item)", "1 comment line(s) skipped in " + feed[3].File}; err != nil || len(rows) != 4 || !slices.Equal(notes, want) {
		t.Errorf("%d rows, %q, %v", len(rows), notes, err)
	}
}

// refusedFile reports whether an error is about the file without a header.
func refusedFile(err error, feed given, texts []string) bool {
	var bad *Error
	i := slices.IndexFunc(texts, func(text string) bool { return !strings.HasPrefix(text, "item") })
	return errors.As(err, &bad) && bad.Path == feed[i].File
}

// A stream's file without a header is refused beside one whose header has another order than the schema, whichever comes first.
func TestStreamOneOrder(t *testing.T) {
	for _, texts := range [][]string{{"item,user,click\ni,u,1\n", "i,u,1\n"}, {"1,u,i\n", "item,user,click\ni,u,1\n"}} {
		var feed given
		for i, text := range texts {
			feed = append(feed, Entry{File: file(t, fmt.Sprint("f", i), []byte(text)), Size: int64(len(text))})
		}
		src, err := NewStream(feed, 0, Options{Format: CSV, Fields: 2, Schema: schemaOf(t, clicksYAML)})
		if err != nil {
			t.Fatal(err)
		}
		if rows, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{}); !refusedFile(err, feed, texts) || len(rows) > 1 {
			t.Errorf("%q: %d rows, %v", texts, len(rows), err)
		}
	}
}

// Comment lines of a stream's files without a header are told of, too.
func TestStreamComments(t *testing.T) {
	for format, text := range map[Format]string{LibSVM: "# by a dump\n1 7:1\n", LibFFM: "#1 0:7:1\n1 0:7:1\n", Criteo: "# x\n" + criteoLine("1", nil) + "\n"} {
		feed := given{{File: file(t, "data", []byte(text)), Size: int64(len(text))}}
		src, err := NewStream(feed, 0, Options{Format: format, Fields: 39})
		if err != nil {
			t.Fatal(err)
		}
		var notes []string
		rows, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{Note: func(s string) { notes = append(notes, s) }})
		if want := []string{"1 comment line(s) skipped in " + feed[0].File}; err != nil || len(rows) != 1 || !slices.Equal(notes, want) {
			t.Errorf("%v: %d rows, %q, %v", format, len(rows), notes, err)
		}
	}
}

// Formats without headers say that the first line looks like one, whatever they are told of labels.
func TestHeaderWhereThereIsNone(t *testing.T) {
	criteo := "label\t" + strings.Join(criteoNames(), "\t") + "\n" + criteoLine("1", map[string]string{"I1": "5", "C1": "68fd1e64"}) + "\n"
	for _, c := range []struct {
		name, text string
		formats    []Format
	}{
		{"criteo", criteo, []Format{Auto, Criteo}},
		{"libsvm", "label features\n1 7:1 8:1\n", []Format{Auto, LibSVM, LibFM}},
		{"libffm", "label field:id:value\n1 0:7:1 1:8:1\n", []Format{Auto, LibFFM}},
		{"one word", "label\n1 7:1 8:1\n", []Format{Auto, LibSVM, LibFM}},
	} {
		for _, format := range c.formats {
			for _, o := range []Options{{Format: format}, {Format: format, Task: Regression}, {Format: format, IgnoreLabels: true}} {
				_, err := Open(t.Context(), []string{file(t, "data", []byte(c.text))}, o)
				if err == nil || !strings.Contains(err.Error(), "data:1") || !strings.Contains(err.Error(), "the first line looks like a header") || strings.Contains(err.Error(), "--task") {
					t.Errorf("%s as %+v: %v", c.name, o, err)
				}
				if format == Auto {
					continue
				}
				o.Fields = 39
				src, err := NewStream(given{{File: file(t, "data", []byte("\n"+c.text)), Size: int64(len(c.text) + 1)}}, 0, o)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := rowsIn(t, src, Whole(2, 2), ReaderOptions{}); err == nil || !strings.Contains(err.Error(), "data:2:1: the first line looks like a header") {
					t.Errorf("%s in a stream as %+v: %v", c.name, o, err)
				}
			}
		}
	}
	for _, text := range []string{"x 7:1\n1 7:1\n", "maybe 1 2\n1 7:1\n", criteoLine("x", map[string]string{"I1": "5"}) + "\n", "1 7:1\nlabel features\n"} {
		if _, err := Open(t.Context(), []string{file(t, "data", []byte(text))}, Options{Format: LibSVM}); err == nil || strings.Contains(err.Error(), "header") {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// Comment lines before the first row are skipped in every text format and counted; one that csv
// could take for a header or a row is refused, so that nothing is lost.
func TestComments(t *testing.T) {
	clicks := func(more string) *Schema { return schemaOf(t, clicksYAML+more) }
	criteo := criteoLine("1", nil) + "\n"
	for _, c := range []struct {
		name, text string
		o          Options
		want       string
		notes      string
	}{
		{"libsvm", "# by a dump\n\n #\n1 7:1\n", Options{}, "", "2 comment line(s) skipped"},
		{"libffm", "#1 0:7:1\n1 0:7:1\n", Options{Format: LibFFM}, "", "1 comment line(s) skipped"},
		{"criteo", "#" + criteo + criteo, Options{}, "", "1 comment line(s) skipped"},
		{"csv, header", "# clicks of May\nitem,user,click\ni,u,1\n", Options{Schema: clicks("")}, "", "1 comment line(s) skipped"},
		{"csv", "# clicks of May\n1,u,i\n", Options{Schema: clicks("")}, "", "no header"},
		{"csv, header behind #", "#item,user,click\ni,u,1\n", Options{Schema: clicks("")}, `data:1:1: the first line looks like a header behind a #, with the column "item"`, ""},
		{"csv, another case", "# Item,X\ni,u,1\n", Options{Schema: clicks("")}, "header behind a #", ""},
		{"csv, a row or not", "#1,u,i\n1,u,i\n", Options{Schema: clicks("header: \"false\"\n")}, "data:1:1: the line begins with # and has 3 cells, as a row has", ""},
		{"csv, quoted", "1,u,i\n\"#1\",u,i\n", Options{Schema: clicks("")}, "", "no header"},
		{"csv, unlabelled", "#u,i\nu,i\n", Options{Schema: clicks(""), IgnoreLabels: true}, "has 2 cells, as a row has", ""},
		{"csv, # between cells", "#u#i\n1#u#i\n", Options{Schema: clicks("separator: \"#\"\nheader: \"false\"\n")}, "the label is missing", ""},
		{"later", "1 7:1\n# x\n", Options{Format: LibSVM}, "data:2:1: label \"#\" is not a number; ctr labels are 0/1 or -1/1; the line begins with #, and comment lines may stand before the first row alone: remove it", ""},
		{"later, csv", "click,user,item\n1,u,i\n# x\n", Options{Schema: clicks("")}, "comment lines may stand before the first row alone", ""},
	} {
		src, err := Open(t.Context(), []string{file(t, "data", []byte(c.text))}, c.o)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		rows, err := rowsIn(t, src, Whole(4, 4), ReaderOptions{})
		if want := 1 + strings.Count(c.text, "1,u,i\n\""); err != nil || len(rows) != want {
			t.Errorf("%s: %q, %v", c.name, rows, err)
		}
		if notes := strings.Join(src.Describe().Notes, "; "); !strings.Contains(notes, c.notes) {
			t.Errorf("%s: %q, want %q", c.name, notes, c.notes)
		}
	}
	a, b := file(t, "a", []byte("# x\n1 1:1\n")), file(t, "b", []byte("1 1:1\n"))
	src, err := Open(t.Context(), []string{a, b}, Options{})
	if err != nil || !slices.Equal(src.Describe().Notes, []string{"1 comment line(s) skipped in " + a}) {
		t.Errorf("%v, %v", src, err)
	}
}

// Parquet columns are found by name, and the nearest is named where one is missing, whatever its case.
func TestParquetNameInAnotherCase(t *testing.T) {
	type row struct {
		CLICK, User, Item string
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b)
	if _, err := w.Write([]row{{"1", "u", "i"}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := file(t, "x.parquet", b.Bytes())
	_, err := Open(t.Context(), []string{path}, Options{Schema: schemaOf(t, clicksYAML)})
	if err == nil || !strings.Contains(err.Error(), `has no column "click", did you mean "CLICK"?`) {
		t.Error(err)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte("click,user,item\n1,a,b\n"))
	f.Add([]byte("Click,User,x\n1,2,3\n#,\"\n"))
	f.Add([]byte("#a,b\n,,"))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines := splitLines(text)
		if len(lines) == 0 {
			return
		}
		s, err := ParseSchema("s", []byte(clicksYAML))
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []labelRule{{CTR, unknownNegative}, {CTR, ignoredLabels}} {
			layout, isHeader, e := newCSVParser(s, rule).layout(s, lines)
			if e != nil && (e.msg == "" || e.column < 1 || e.column > len(lines[0])+1) || e == nil && len(layout) == 0 {
				t.Fatalf("%q: layout %v, header %v, %+v", text, layout, isHeader, e)
			}
			explain(newCriteoParser(rule), lines[0], &lineError{1, "x"}, true)
		}
		if e := refuseComment(lines[0], &Options{Schema: s}); e != nil && e.msg == "" {
			t.Fatal(e)
		}
	})
}

func splitLines(text []byte) (lines [][]byte) {
	for line := range strings.SplitSeq(string(text), "\n") {
		if !blank([]byte(line)) {
			lines = append(lines, []byte(line))
		}
	}
	return lines
}

// split(1) leaves a header in the first part only: the other parts have its order, not the schema's.
func TestHeaderInTheFirstPartOnly(t *testing.T) {
	schema, err := ParseSchema("clicks.yaml", []byte(clicksYAML))
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{"item,user,click": "is not in the schema's order", "click,user,item": ""} {
		dir := t.TempDir()
		for name, text := range map[string]string{"part-0": header + "\n1,u1,0\n0,u2,1\n", "part-1": "1,u1,0\n0,u2,1\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Open(t.Context(), []string{dir}, Options{Schema: schema})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", header, err, want)
		}
	}
}
