package dataset

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const schemaText = `
separator: ","
missing: ["?", NA]
columns:
  - {name: id, kind: ignored}
  - {name: age, kind: numeric, transform: standardize, mean: 10, std: 2}
  - {name: gain, kind: numeric, transform: log}
  - {name: years, kind: numeric, transform: bucketize, boundaries: [1, 5.5]}
  - {name: job, kind: categorical}
  - {name: genres, kind: multi, separator: "|"}
  - {name: y, kind: label, positive: [">50K", ">50K."], negative: ["<=50K"]}
`

func TestCSVRows(t *testing.T) {
	s, err := ParseSchema("s.yaml", []byte(schemaText))
	if err != nil {
		t.Fatal(err)
	}
	text := func(field int, s string) uint64 { return TextKey(field, []byte(s)) }
	half := fmt.Sprint(float32(0.5))
	log1 := fmt.Sprint(float32(math.Log1p(7)))
	for _, c := range []struct{ line, want string }{
		{"7,12,7,1,cook,a|b,>50K", fmt.Sprintf("1 0:%d:1 1:%d:%s 2:%d:1 3:%d:1 4:%d:%s 4:%d:%s",
			NumberKey(0), NumberKey(1), log1, Key(2, 1), text(3, "cook"), text(4, "a"), half, text(4, "b"), half)},
		{` 7 , 12 , -7 , 0 , " co,""ok" , a , <=50K `, fmt.Sprintf("0 0:%d:1 1:%d:-%s 2:%d:1 3:%d:1 4:%d:1",
			NumberKey(0), NumberKey(1), log1, Key(2, 0), text(3, ` co,"ok`), text(4, "a"))},
		{"?,?,,NA,?,|,>50K.", fmt.Sprintf("1 0:%d:1 1:%d:1 2:%d:1 3:%d:1 4:%d:1", MissingKey(0), MissingKey(1), MissingKey(2), MissingKey(3), MissingKey(4))},
		{",10,0,99,x,c||c,>50K", fmt.Sprintf("1 0:%d:0 1:%d:0 2:%d:1 3:%d:1 4:%d:0.5 4:%d:0.5",
			NumberKey(0), NumberKey(1), Key(2, 2), text(3, "x"), text(4, "c"), text(4, "c"))},
		{"7,x,7,1,cook,a,>50K", `f:3:3: age: "x" is not a number; list texts that mean no value under missing`},
		{"7,inf,7,1,cook,a,>50K", `age: "inf" is not finite`},
		{"7,1e300,7,1,cook,a,>50K", `age: "1e300" is beyond the range of float32; use transform: log`},
		{"7,1,7,1,cook,a,50K", `f:3:16: y: label "50K" is neither in positive`},
		{"7,1,7,1,cook,a,", "y: the label is missing"},
		{"7,1,7,1,cook,a", "the line has 6 cells, the schema has 7"},
		{"7,1,7,1,cook,a,>50K,8", "the line has 8 cells, the schema has 7"},
		{`7,1,7,1,"cook,a,>50K`, "f:3:9: the quote does not end on its line"},
		{`7,1,7,1,"cook"s,a,>50K`, "f:3:15: text behind the closing quote"},
	} {
		p := newCSVParser(s, labelRule{CTR, unknownNegative})
		if got := try(p, c.line); !matches(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

func twoColumns(header, rest string) *Schema {
	return &Schema{Header: header, Rest: rest, Columns: []Column{{Name: "c", Kind: "categorical"}, {Name: "y", Kind: "label"}}}
}

func TestCSVHeaders(t *testing.T) {
	want := []string{fmt.Sprintf("1 0:%d:1", TextKey(0, []byte("a"))), fmt.Sprintf("0 0:%d:1", TextKey(0, []byte("b")))}
	for _, c := range []struct {
		header, rest, text, want string
	}{
		{"", "", "a,1\nb,0\n", ""},
		{"auto", "", "c,y\na,1\nb,0\n", ""},
		{"auto", "", "y,c\r\n1,a\r\n0,b\r\n", ""},
		{"yes", "ignored", "x,y,z,c\n7,1,7,a\n7,0,7,b\n", ""},
		{"true", "", "x,y,c\n7,1,a\n", "data:1:1: header column \"x\" is not in the schema; add it (kind: ignored), or set rest: ignored"},
		{"true", "", "a,1\nb,0\n", "data:1:1: the header has no column \"c\""},
		{"false", "", "c,y\na,1\n", `data:1:1: the first line holds the schema's column names, but the schema says header: "false"`},
		{"false", "", "c,x\na,1\n", "data:1:3: label \"x\" is not a number"},
		{"false", "", "a,1\nb,0\n", ""},
		{"true", "", "c,y\n", "the file has a header and no rows"},
	} {
		got, err := rowsOf(t, []string{file(t, "data", []byte(c.text))}, Options{Schema: twoColumns(c.header, c.rest)})
		if c.want == "" && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("%q: %q, %v; want %q", c.text, got, err, want)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: error %v, want %s", c.text, err, c.want)
		}
	}
	// Files of one job may differ in having a header, or in its order, but not in both.
	for _, second := range []string{"b,0\n", "c,y\nb,0\n"} {
		first := map[bool]string{true: "y,c\n1,a\n", false: "c,y\na,1\n"}[strings.HasPrefix(second, "c")]
		got, err := rowsOf(t, []string{file(t, "d1", []byte(first)), file(t, "d2", []byte(second))}, Options{Schema: twoColumns("", "")})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("two files: %q, %v", got, err)
		}
	}
}

// What is found in the training data is used on the test data.
func TestCSVStatisticsTravel(t *testing.T) {
	schema := &Schema{Separator: "::", Columns: []Column{
		{Name: "x", Kind: "numeric", Transform: "standardize"}, {Name: "b", Kind: "numeric", Transform: "bucketize", Buckets: 2},
		{Name: "r", Kind: "label", PositiveAbove: new(float64)},
	}}
	*schema.Columns[2].PositiveAbove = 3
	train, err := Open(t.Context(), []string{file(t, "train", []byte("1::10::4\n3::20::3\n"))}, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	if schema.Columns[0].Mean != nil {
		t.Error("Open changed the caller's schema")
	}
	test, err := Open(t.Context(), []string{file(t, "test", []byte("5::15::5\n"))}, train.Options())
	if err != nil {
		t.Fatal(err)
	}
	got, err := rowsIn(t, test, Whole(1, 1), ReaderOptions{})
	want := []string{fmt.Sprintf("1 0:%d:3 1:%d:1", NumberKey(0), Key(1, 0))} // (5-2)/1; 15 < 20, the median
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if d := test.Describe(); d.Fields != 2 || !slices.Equal(d.FieldNames, []string{"x", "b"}) {
		t.Errorf("%+v", d)
	}
}

func TestSchemaErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "s.yaml: schema is empty"},
		{"columns: [", "schema: not YAML: line 1"},
		{"colums: []", `s.yaml:1:1: schema key "colums" is unknown, did you mean "columns"?`},
		{"columns:\n- {name: a, kind: label, positve: [x]}", `s.yaml:2:26: schema key "positve" is unknown, did you mean "positive"?`},
		{"columns: []", "schema has no columns"},
		{"columns: 5", `there is "5" where a list should be`},
		{"columns: [{kind: label}]", "column 1 has no name"},
		{"columns: [{name: a, kind: labl}]", `column "a": kind "labl" is unknown, did you mean "label"?`},
		{"columns: [{name: a, kind: label}]", "no column to learn from"},
		{"columns: [{name: a, kind: numeric}]", "schema has 0 columns of kind label, must have one"},
		{"columns: [{name: a, kind: numeric}, {name: a, kind: label}]", `two columns are named "a"`},
		{"columns: [{name: a, kind: numeric, transform: logg}]", `transform "logg" is unknown, did you mean "log"?`},
		{"columns: [{name: a, kind: numeric, transform: bucketize}]", "bucketize needs boundaries"},
		{"columns: [{name: a, kind: numeric, boundaries: [2, 1]}]", "boundaries must ascend"},
		{"columns: [{name: a, kind: numeric, std: 0}]", "std is 0, must be above 0"},
		{"columns: [{name: a, kind: categorical, transform: log}]", "transform belongs to columns of kind numeric, this one is categorical"},
		{"columns: [{name: a, kind: multi, weight: two}]", `weight "two" is unknown`},
		{"columns: [{name: a, kind: label, negative: [x]}]", "negative without positive"},
		{"columns: [{name: a, kind: label, positive: [x], positive_above: 1}]", "not both"},
		{"header: maybe\ncolumns: [{name: a, kind: label}]", `header: "maybe", must be true, false or auto`},
		{"rest: x\ncolumns: [{name: a, kind: label}]", `rest: "x"`},
		{"separator: '\"'\ncolumns: [{name: a, kind: label}]", "separator"},
	} {
		if _, err := ParseSchema("s.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	if _, err := ReadSchema(t.TempDir() + "/none.yaml"); err == nil || !strings.Contains(err.Error(), "schema cannot be read") {
		t.Errorf("missing schema: %v", err)
	}
}

// A NaN label is a missing one, as Parquet's writers mean it: not a "no".
func TestLabelThatIsNoNumber(t *testing.T) {
	for _, c := range []struct{ columns, row, want string }{
		{`positive: ["1"]`, "nan", "the label is nan"},
		{`positive: ["1"]`, "NaN", "the label is NaN"},
		{`positive: ["1"], negative: ["nan", "0"]`, "nan", ""},
		{`positive: ["yes"]`, "no", ""},
	} {
		schema, err := ParseSchema("y.yaml", []byte("columns:\n- {name: y, kind: label, "+c.columns+"}\n- {name: a, kind: categorical}\n"))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "rows.csv")
		if err := os.WriteFile(path, []byte("y,a\n"+c.row+",b\n1,c\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), []string{path}, Options{Schema: schema})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, label %s: %v, want %q", c.columns, c.row, err, c.want)
		}
	}
}
