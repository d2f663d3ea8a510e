package dataset

import (
	"bytes"
	"io"
	"math"
	"slices"
	"testing"
	"testing/iotest"
)

// fuzzLine: a parser never panics, and gives either an error that points into
// the line with the batch untouched, or one well-formed row.
func fuzzLine(t *testing.T, p lineParser, fields int, line []byte) {
	if bytes.IndexByte(line, '\n') >= 0 || blank(line) {
		return // the line reader lets neither through
	}
	var b Batch
	b.Reset()
	kept := slices.Clone(line)
	e := p.parse(line, new(input), &b)
	if !bytes.Equal(kept, line) {
		t.Fatalf("the parser changed its input %q to %q", kept, line)
	}
	if e != nil {
		if b.Len() != 0 || len(b.Offsets) != 1 || len(b.Keys)+len(b.Fields)+len(b.Values) != 0 {
			t.Fatalf("%q: error %q and a row", line, e.msg)
		}
		if e.column < 1 || e.column > len(line)+1 || e.msg == "" {
			t.Fatalf("%q: error %q at column %d", line, e.msg, e.column)
		}
		return
	}
	if b.Len() != 1 || len(b.Offsets) != 2 || int(b.Offsets[1]) != len(b.Keys) || len(b.Keys) != len(b.Fields) || len(b.Keys) != len(b.Values) {
		t.Fatalf("%q: malformed row %+v", line, b)
	}
	for i := range b.Keys {
		if v := float64(b.Values[i]); math.IsNaN(v) || math.IsInf(v, 0) || int(b.Fields[i]) >= fields {
			t.Fatalf("%q: occurrence %d has field %d, value %v", line, i, b.Fields[i], v)
		}
	}
	if y := float64(b.Labels[0]); math.IsNaN(y) || math.IsInf(y, 0) {
		t.Fatalf("%q: label %v", line, y)
	}
}

func FuzzSVM(f *testing.F) {
	for _, s := range []string{"1 5:1 7:.5", "0", "-1 18446744073709551615:1e-3", "1 18446744073709551616:1", "1 1:nan", "1 1:2:3", "\t1\t1:1"} {
		f.Add([]byte(s), true)
	}
	f.Fuzz(func(t *testing.T, line []byte, real bool) {
		task := CTR
		if real {
			task = Regression
		}
		fuzzLine(t, svm(5, task), 5, line)
	})
}

func FuzzFFM(f *testing.F) {
	for _, s := range []string{"1 0:5:1 2:7:.5", "0", "1 4:18446744073709551615:1", "1 5:1:1", "1 0:1", "1 0::", "1 : :"} {
		f.Add([]byte(s))
	}
	p := ffm(5, CTR)
	f.Fuzz(func(t *testing.T, line []byte) { fuzzLine(t, p, 5, line) })
}

func FuzzCriteo(f *testing.F) {
	f.Add([]byte(criteoLine("1", map[string]string{"I1": "-7", "I2": "900", "C1": "68fd1e64"})))
	f.Add([]byte("0\t1"))
	f.Add([]byte(criteoLine("0", nil) + "\t"))
	p := newCriteoParser(labelRule{CTR, unknownNegative})
	f.Fuzz(func(t *testing.T, line []byte) { fuzzLine(t, p, criteoFields, line) })
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"1,a,b|c,1", `"2"," x""y ", ,0`, ",,,1", "1,a,b", `1,"a`, "nan,a,b,1", "1,a,|,0,"} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, line []byte, how uint8) {
		trim := how&1 == 0
		s := &Schema{Header: "false", Trim: &trim, Missing: []string{"?"}, Columns: []Column{
			{Name: "n", Kind: "numeric", Transform: []string{"none", "log"}[how>>1&1]}, {Name: "c", Kind: "categorical"},
			{Name: "m", Kind: "multi"}, {Name: "y", Kind: "label"},
		}}
		if how&4 != 0 {
			s.Separator = "::"
		}
		p := newCSVParser(s, labelRule{CTR, unknownNegative})
		fuzzLine(t, p, 3, line)
	})
}

// FuzzLines compares the line reader with a naive split, over odd read sizes.
func FuzzLines(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbfa\r\n\n \t\r\nbb\n\nccc"), uint8(1))
	f.Add([]byte("\n\n"), uint8(3))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaa\nb\n"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		r := newLineReader("f", iotest.OneByteReader(bytes.NewReader(text)), make([]byte, 3+int(size)), 1<<20)
		for i, want := range bytes.Split(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\n")) {
			want = bytes.TrimSuffix(want, []byte("\r"))
			if len(bytes.Trim(want, " \t\r")) == 0 {
				continue
			}
			got, err := r.next()
			if err != nil || !bytes.Equal(got, want) || r.line != i+1 {
				t.Fatalf("%q: line %d: %q, %v; want %q as line %d", text, r.line, got, err, want, i+1)
			}
		}
		if got, err := r.next(); err != io.EOF {
			t.Fatalf("%q: %q, %v behind the last line", text, got, err)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte("separator: tab\nheader: true\ncolumns:\n- {name: a, kind: numeric, transform: log}\n- {name: y, kind: label}\n"))
	f.Add([]byte("columns: []"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSchema("s.yaml", text)
		if (s == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, s, err)
		}
		if err == nil && s.Validate() != nil {
			t.Fatalf("%q: accepted, yet %v", text, s.Validate())
		}
	})
}
