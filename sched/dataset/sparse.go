package dataset

import (
	"bytes"
	"errors"
	"fmt"
)

// lineParser appends one line as one row. On an error the batch is as before.
// A parser is read-only once a source is open: all parsing goroutines share it.
type lineParser interface {
	parse(line []byte, in *input, b *Batch) *lineError
}

// input is a file as the parsers need to know it.
type input struct {
	path   string
	id     Identity // when the source was opened; of a stream's file zero
	header bool     // its first line is a header
	first  int      // number of the line of its first row, or of its header
	layout []int    // csv: cell position -> column, -1 where ignored; nil: in the schema's order
}

// maxFields is what Batch.Fields can number.
const maxFields = 1 << 16

// sparseParser reads libsvm, libfm and libffm lines.
type sparseParser struct {
	labels  labelRule
	fielded bool // libffm: tokens are field:id:value; else id:value, and the field is the position in the line
	fields  int  // fields from this on are an error
	sniffed int  // rows the field count was found on; 0: it was given
}

func (p *sparseParser) parse(line []byte, _ *input, b *Batch) *lineError {
	i := 0
	for i < len(line) && isBlank(line[i]) {
		i++
	}
	end := wordEnd(line, i)
	if bytes.IndexByte(line[i:end], ':') >= 0 {
		if p.labels.ignored() {
			return p.features(line, i, 0, b)
		}
		return badLine(i, "line begins with %s where the label should be; put the label first", quote(line[i:end]))
	}
	label, e := p.labels.parse(line[i:end], i)
	if e != nil {
		return e
	}
	if p.labels.ignored() && blank(line[end:]) && isName(string(line[i:end])) {
		return badLine(i, "%s is neither a label nor a feature", quote(line[i:end]))
	}
	return p.features(line, end, label, b)
}

// features reads what is behind the label, from i on.
func (p *sparseParser) features(line []byte, i int, label float32, b *Batch) *lineError {
	n := len(b.Keys)
	room := n + len(line)/4 + 1 // the shortest feature, " 1:1", takes four bytes
	keys, fields, values := grow(b.Keys, room), grow(b.Fields, room), grow(b.Values, room)
	for position := uint64(0); ; position++ {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) {
			break
		}
		start, field := i, position
		if p.fielded {
			var next int
			var fits bool
			if field, next, fits = cutUint(line, i); next == i || next == len(line) || line[next] != ':' {
				return p.badToken(line, start)
			} else if !fits {
				return badLine(start, "field %s is beyond 64 bits; fields are numbered 0 to %d", quote(line[i:next]), maxFields-1)
			}
			i = next + 1
		}
		if field >= uint64(p.fields) {
			return p.tooManyFields(line, start, field)
		}
		id, next, fits := cutUint(line, i)
		if next == i || next == len(line) || line[next] != ':' {
			return p.badToken(line, start)
		}
		if !fits {
			return badLine(i, "id beyond 64 bits: %s; ids are 0 to 18446744073709551615, hash longer ones", quote(line[i:next]))
		}
		i = next + 1
		var value float32
		if i+1 < len(line) && isBlank(line[i+1]) && line[i]-'0' <= 9 {
			value, i = float32(line[i]-'0'), i+1
		} else {
			end := wordEnd(line, i)
			v, err := parseFloat(line[i:end])
			if err != nil {
				return p.badValue(line, start, i, end, err)
			}
			value, i = v, end
		}
		keys[n], fields[n], values[n] = id, uint16(field), value
		n++
	}
	return b.close(label, keys[:n], fields[:n], values[:n])
}

// close makes the occurrences appended so far the new last row.
func (b *Batch) close(label float32, keys []uint64, fields []uint16, values []float32) *lineError {
	if len(keys) > maxOccurrences {
		return badLine(0, "a micro-batch of %d and more feature occurrences is too large; use a smaller --batch or --micro-batch", maxOccurrences)
	}
	b.Keys, b.Fields, b.Values = keys, fields, values
	b.Labels = append(b.Labels, label)
	b.Offsets = append(b.Offsets, int32(len(keys)))
	return nil
}

const maxOccurrences = 1<<31 - 1

// grow gives s in its full capacity, at least n.
func grow[T any](s []T, n int) []T {
	if n > cap(s) {
		t := make([]T, n+n/2)
		copy(t, s)
		return t
	}
	return s[:cap(s)]
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func wordEnd(line []byte, i int) int {
	for i < len(line) && !isBlank(line[i]) {
		i++
	}
	return i
}

func (p *sparseParser) grammar() string {
	if p.fielded {
		return "field:id:value"
	}
	return "id:value"
}

func (p *sparseParser) badToken(line []byte, start int) *lineError {
	word := line[start:wordEnd(line, start)]
	hint := ""
	switch {
	case word[0] == '#':
		hint = "; remove comments behind rows"
	case bytes.HasPrefix(word, []byte("qid:")):
		hint = "; remove query ids"
	}
	return badLine(start, "%s is not %s with whole numbers for all but the value%s", quote(word), p.grammar(), hint)
}

func (p *sparseParser) badValue(line []byte, start, i, end int, err error) *lineError {
	if bytes.IndexByte(line[i:end], ':') >= 0 {
		return p.badToken(line, start)
	}
	if errors.Is(err, errNotFinite) {
		return badLine(i, "value %s is not finite; replace or drop it", quote(line[i:end]))
	}
	return badLine(i, "value %s of %s is %v", quote(line[i:end]), quote(line[start:end]), err)
}

func (p *sparseParser) tooManyFields(line []byte, start int, field uint64) *lineError {
	if field >= maxFields {
		return badLine(start, "field %d: fields are numbered 0 to %d", field, maxFields-1)
	}
	if p.fielded {
		return badLine(start, "field %d, but %s; mend the line, or give --fields %d or more", field, p.known(), field+1)
	}
	need := len(bytes.Fields(line)) - 1
	return badLine(start, "the line has %d features, but %s; mend the line, or give --fields %d or more (the field of a libsvm feature is its position)", need, p.known(), need)
}

func (p *sparseParser) known() string {
	if p.sniffed == 0 {
		return fmt.Sprintf("the number of fields was given as %d", p.fields)
	}
	return fmt.Sprintf("the first %d rows have only %d fields", p.sniffed, p.fields)
}
