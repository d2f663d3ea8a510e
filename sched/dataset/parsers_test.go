package dataset

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"psrt/csrc/seedtest"
)

func svm(fields int, task Task) lineParser {
	return &sparseParser{labels: labelRule{task, unknownNegative}, fields: fields, sniffed: 9}
}

func ffm(fields int, task Task) lineParser {
	return &sparseParser{labels: labelRule{task, unknownNegative}, fields: fields, sniffed: 9, fielded: true}
}

// rowText writes a parsed row in a form tests can read.
func rowText(b *Batch, i int) string {
	s := fmt.Sprint(b.Labels[i])
	for k := b.Offsets[i]; k < b.Offsets[i+1]; k++ {
		s += fmt.Sprintf(" %d:%d:%v", b.Fields[k], b.Keys[k], b.Values[k])
	}
	return s
}

// try parses a line behind another row, so that a parser that writes at the
// wrong place is found out.
func try(p lineParser, line string) string {
	b := Batch{Labels: []float32{7}, Offsets: []int32{0, 1}, Keys: []uint64{8}, Fields: []uint16{9}, Values: []float32{10}}
	before := b
	if e := p.parse([]byte(line), new(input), &b); e != nil {
		if !reflect.DeepEqual(b, before) {
			return "error and a changed batch"
		}
		return e.at("f", 3).Error()
	}
	if got := rowText(&b, 0); got != "7 9:8:10" {
		return "the row before became " + got
	}
	return rowText(&b, 1)
}

func TestSparseLines(t *testing.T) {
	for _, c := range []struct {
		p          lineParser
		line, want string
	}{
		{svm(3, CTR), "1 5:1 7:.5", "1 0:5:1 1:7:0.5"},
		{svm(3, CTR), "0", "0"},
		{svm(3, CTR), "+1\t5:1\t", "1 0:5:1"},
		{svm(3, CTR), "  -1  5:1  ", "0 0:5:1"},
		{svm(3, CTR), "1.0 0:0 18446744073709551615:-2e3", "1 0:0:0 1:18446744073709551615:-2000"},
		{svm(3, Regression), "3.25 1:9", "3.25 0:1:9"},
		{svm(3, Regression), "-1 1:9", "-1 0:1:9"},
		{ffm(3, CTR), "1 0:5:1 2:5:0.25 2:6:0.75", "1 0:5:1 2:5:0.25 2:6:0.75"},
		{ffm(3, CTR), "1 2:5:1 0:5:1", "1 2:5:1 0:5:1"},
		{ffm(3, CTR), "1 00:05:01", "1 0:5:1"},

		{svm(3, CTR), "1 18446744073709551616:1", "f:3:3: id beyond 64 bits: \"18446744073709551616\""},
		{svm(3, CTR), "1 99999999999999999999999:1", "id beyond 64 bits"},
		{svm(3, CTR), "2 1:1", "f:3:1: label \"2\" is neither 0/1 nor -1/1; ctr labels"},
		{svm(3, CTR), "x 1:1", "f:3:1: label \"x\" is not a number"},
		{svm(3, CTR), "nan 1:1", "label \"nan\" is not finite"},
		{svm(3, Regression), "inf 1:1", "label \"inf\" is not finite"},
		{svm(3, Regression), "1e99 1:1", "label \"1e99\" is beyond the range of float32"},
		{svm(3, CTR), "1:1 2:1", "f:3:1: line begins with \"1:1\" where the label should be"},
		{svm(3, CTR), "1 1:nan", "f:3:5: value \"nan\" is not finite; replace or drop it"},
		{svm(3, CTR), "1 1:-Inf", "value \"-Inf\" is not finite"},
		{svm(3, CTR), "1 1:1e39", "value \"1e39\" of \"1:1e39\" is beyond the range"},
		{svm(3, CTR), "1 1:x", "f:3:5: value \"x\" of \"1:x\" is not a number"},
		{svm(3, CTR), "1 1:", "f:3:5: value \"\" of \"1:\" is not a number"},
		{svm(3, CTR), "1 1: 2", "value \"\" of \"1:\" is not a number"},
		{svm(3, CTR), "1 1", "f:3:3: \"1\" is not id:value"},
		{svm(3, CTR), "1 :1", "\":1\" is not id:value"},
		{svm(3, CTR), "1 a:1", "\"a:1\" is not id:value"},
		{svm(3, CTR), "1 -1:1", "\"-1:1\" is not id:value"},
		{svm(3, CTR), "1 1:2:3", "\"1:2:3\" is not id:value with whole numbers for all but the value"},
		{svm(3, CTR), "1 qid:1 1:2", "remove query ids"},
		{svm(3, CTR), "1 1:2 # x", "f:3:7: \"#\" is not id:value with whole numbers for all but the value; remove comments"},
		{svm(2, CTR), "1 1:1 2:1 3:1", "f:3:11: the line has 3 features, but the first 9 rows have only 2 fields; mend the line, or give --fields 3"},
		{ffm(3, CTR), "1 1:2", "f:3:3: \"1:2\" is not field:id:value with whole numbers for all but the value"},
		{ffm(3, CTR), "1 3:2:1", "f:3:3: field 3, but the first 9 rows have only 3 fields; mend the line, or give --fields 4"},
		{ffm(3, CTR), "1 65536:2:1", "field 65536: fields are numbered 0 to 65535"},
		{ffm(3, CTR), "1 18446744073709551616:2:1", "field \"18446744073709551616\" is beyond 64 bits"},
		{ffm(3, CTR), "1 1:18446744073709551616:1", "f:3:5: id beyond 64 bits"},
		{ffm(3, CTR), "1 1:2:3:4", "\"1:2:3:4\" is not field:id:value"},
		{ffm(3, CTR), "1 1::1", "\"1::1\" is not field:id:value"},
		{ffm(3, CTR), "1 " + strings.Repeat("y", 100), "\"" + strings.Repeat("y", 40) + "\"... is not"},
		{ffm(3, CTR), "1 \x00\xff", `"\x00\xff" is not field:id:value`},
		{&sparseParser{labels: labelRule{CTR, 0}, fields: 1}, "-1 1:1", "earlier rows use"},
		{&sparseParser{labels: labelRule{CTR, -1}, fields: 1}, "0 1:1", "earlier rows use"},
		{&sparseParser{labels: labelRule{CTR, -1}, fields: 1}, "1 1:1 2:1", "the number of fields was given as 1"},
	} {
		if got := try(c.p, c.line); !matches(got, c.want) {
			t.Errorf("%q:\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}

// matches: rows must be equal, messages must contain the text.
func matches(got, want string) bool {
	if strings.Contains(want, " ") && strings.ContainsAny(want, "abcdefghijklmnopqrstuvwyz") {
		return strings.Contains(got, want)
	}
	return got == want
}

func criteoLine(label string, cells map[string]string) string {
	line := []string{label}
	for _, name := range criteoNames() {
		line = append(line, cells[name])
	}
	return strings.Join(line, "\t")
}

func TestCriteoRow(t *testing.T) {
	p := newCriteoParser(labelRule{CTR, unknownNegative})
	var b Batch
	b.Reset()
	line := criteoLine("1", map[string]string{"I1": "0", "I2": "-3", "I3": "2", "I4": "3", "I5": "100", "I13": "9223372036854775807", "C1": "05DB9164", "C26": "ffffffffffffffff"})
	if e := p.parse([]byte(line), new(input), &b); e != nil {
		t.Fatal(e.msg)
	}
	if len(b.Keys) != 39 || b.Labels[0] != 1 {
		t.Fatalf("%d occurrences, label %v", len(b.Keys), b.Labels[0])
	}
	minus3 := int64(-3)
	want := map[int]uint64{
		0: Key(0, 0), 1: Key(1, uint64(minus3)), 2: Key(2, 2),
		3:  Key(3, 1<<32+uint64(math.Pow(math.Log(3), 2))),
		4:  Key(4, 1<<32+uint64(math.Pow(math.Log(100), 2))),
		12: Key(12, 1<<32+uint64(math.Pow(math.Log(math.MaxInt64), 2))),
		13: Key(13, 0x05db9164), 38: Key(38, math.MaxUint64),
	}
	for f := range criteoFields {
		k, ok := want[f]
		if !ok {
			k = MissingKey(f)
		}
		if b.Keys[f] != k || b.Fields[f] != uint16(f) || b.Values[f] != 1 {
			t.Errorf("field %d: key %x field %d value %v, want key %x", f, b.Keys[f], b.Fields[f], b.Values[f], k)
		}
	}
}

// The table of bucket starts agrees with the formula everywhere it is not
// within rounding of a border, and never goes down.
func TestCriteoBuckets(t *testing.T) {
	p := newCriteoParser(labelRule{})
	r := seedtest.Rand(t)
	for range 200000 {
		v := int64(3 + r.Uint64N(1<<62)>>r.IntN(62))
		x := math.Pow(math.Log(float64(v)), 2)
		if math.Abs(x-math.Round(x)) < 1e-9 {
			continue
		}
		if got := p.intCode(v); got != 1<<32+uint64(x) {
			t.Fatalf("bucket of %d is %d, ln(v)^2 is %v", v, got-1<<32, x)
		}
	}
	last := uint64(0)
	for v := int64(3); v < 10000; v++ {
		if c := p.intCode(v); c < last {
			t.Fatalf("bucket of %d is below that of %d", v, v-1)
		} else {
			last = c
		}
	}
}

func TestCriteoErrors(t *testing.T) {
	p := newCriteoParser(labelRule{CTR, unknownNegative})
	good := criteoLine("0", nil)
	for _, c := range []struct{ line, want string }{
		{"1 1:1", "f:3:1: no tab in the line"},
		{criteoLine("2", nil), "f:3:1: label \"2\" is neither"},
		{criteoLine("", nil), "label \"\" is not a number"},
		{good[:len(good)-1], "the line has 39 columns, criteo rows have 40"},
		{good + "\t1", "the line has 41 columns, criteo rows have 40"},
		{criteoLine("1", map[string]string{"I2": "1.5"}), "f:3:4: I2 is \"1.5\", not a whole number"},
		{criteoLine("1", map[string]string{"I1": "-"}), "I1 is \"-\", not a whole number"},
		{criteoLine("1", map[string]string{"I13": "9223372036854775808"}), "I13 is \"9223372036854775808\", beyond 63 bits"},
		{criteoLine("1", map[string]string{"C1": "xyz"}), "C1 is \"xyz\", not a hexadecimal number"},
		{criteoLine("1", map[string]string{"C26": "12345678123456781"}), "C26 is \"12345678123456781\": id beyond 64 bits"},
	} {
		if got := try(p, c.line); !matches(got, c.want) {
			t.Errorf("%q:\n got %s\nwant %s", c.line, got, c.want)
		}
	}
}
