package dataset

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
)

const (
	criteoInts    = 13
	criteoCats    = 26
	criteoFields  = criteoInts + criteoCats
	criteoColumns = 1 + criteoFields
)

// criteoParser reads the Criteo layout: label, I1 to I13 (counts, a few of them
// negative), C1 to C26 (up to 16 hexadecimal digits), separated by tabs, each
// but the label possibly empty. Every row has 39 occurrences of value 1:
//
//	field f empty      MissingKey(f)
//	integer v <= 2     Key(f, v as two's complement)
//	integer v > 2      Key(f, 2^32 + floor(ln(v)^2)), the logarithmic buckets customary for this data
//	category           Key(f, the hexadecimal number)
type criteoParser struct {
	labels labelRule
	starts []uint64     // LogBuckets: a table, so that buckets come out the same on every machine
	small  [4096]uint16 // the bucket of each small v
	absent [criteoFields]uint64
	digits [256]uint8 // of hexadecimal numbers; notHex for all other bytes
	names  *Names
}

const notHex = 0xff

// LogBuckets are the smallest numbers of the logarithmic buckets of criteo
// integers: bucket k holds the v with LogBuckets()[k] <= v < LogBuckets()[k+1],
// which is floor(ln(v)^2) == k.
func LogBuckets() []uint64 {
	var starts []uint64
	for k := 0; ; k++ {
		v := math.Ceil(math.Exp(math.Sqrt(float64(k))))
		if v >= 1<<63 {
			return starts
		}
		starts = append(starts, uint64(v))
	}
}

func newCriteoParser(labels labelRule) *criteoParser {
	p := &criteoParser{labels: labels, starts: LogBuckets()}
	for c := range p.digits {
		p.digits[c] = notHex
		if d, err := strconv.ParseUint(string(rune(c)), 16, 8); err == nil {
			p.digits[c] = uint8(d)
		}
	}
	for v := range p.small {
		p.small[v] = uint16(p.search(uint64(v)))
	}
	for f := range p.absent {
		p.absent[f] = MissingKey(f)
	}
	return p
}

func (p *criteoParser) search(v uint64) int {
	k, exact := slices.BinarySearch(p.starts, v)
	if exact {
		return k
	}
	return max(k-1, 0)
}

const logBucket = 1 << 32

// intCode is the code of a count: itself while small, else its bucket.
func (p *criteoParser) intCode(v int64) uint64 {
	switch {
	case v <= 2:
		return uint64(v)
	case v < int64(len(p.small)):
		return logBucket + uint64(p.small[v])
	}
	return logBucket + uint64(p.search(uint64(v)))
}

func (p *criteoParser) parse(line []byte, _ *input, b *Batch) *lineError {
	end := bytes.IndexByte(line, '\t')
	if end < 0 {
		return badLine(0, "no tab in the line; criteo rows are a label, 13 integers and 26 categories separated by tabs")
	}
	label, e := p.labels.parse(line[:end], 0)
	if e != nil {
		return e
	}
	if p.labels.ignored() && bytes.Count(line, []byte("\t")) == criteoFields-1 {
		end = -1 // the first column is I1 already
	}
	n := len(b.Keys)
	keys := grow(b.Keys, n+criteoFields)
	fields := grow(b.Fields, n+criteoFields)
	values := grow(b.Values, n+criteoFields)
	i := end + 1
	for f := range criteoFields {
		if i > len(line) {
			return badLine(len(line), "the line has %d columns, criteo rows have %d (label, 13 integers, 26 categories); is a line cut short?", f+1, criteoColumns)
		}
		var key uint64
		var next int
		switch {
		case i == len(line) || line[i] == '\t':
			key, next = p.absent[f], i
		case f < criteoInts:
			var v int64
			if v, next, e = criteoInt(line, i, f); e != nil {
				return e
			}
			key = Key(f, p.intCode(v))
		default:
			var v uint64
			if v, next, e = p.hex(line, i, f); e != nil {
				return e
			}
			key = Key(f, v)
		}
		if p.names.wants(f) {
			p.note(key, f, line[i:next])
		}
		keys[n+f], fields[n+f], values[n+f] = key, uint16(f), 1
		i = next + 1
	}
	if i <= len(line) {
		return badLine(i, "the line has %d columns, criteo rows have %d (label, 13 integers, 26 categories)", 1+bytes.Count(line, []byte("\t")), criteoColumns)
	}
	n += criteoFields
	return b.close(label, keys[:n], fields[:n], values[:n])
}

func (p *criteoParser) note(key uint64, f int, cell []byte) {
	p.names.note(key, func() string { return p.name(f, cell) })
}

// name is what the key of a cell stands for.
func (p *criteoParser) name(f int, cell []byte) string {
	if len(cell) == 0 {
		return missingName
	}
	v, err := strconv.ParseInt(string(cell), 10, 64)
	if f >= criteoInts || err != nil || v <= 2 {
		return string(cell)
	}
	bucket := p.search(uint64(v))
	if bucket+1 == len(p.starts) {
		return fmt.Sprintf("from %d on", p.starts[bucket])
	}
	return fmt.Sprintf("from %d to %d", p.starts[bucket], p.starts[bucket+1]-1)
}

func cellEnd(line []byte, i int) int {
	if j := bytes.IndexByte(line[i:], '\t'); j >= 0 {
		return i + j
	}
	return len(line)
}

func criteoInt(line []byte, i, f int) (v int64, next int, e *lineError) {
	from, neg := i, line[i] == '-'
	if neg {
		from++
	}
	u, next, fits := cutUint(line, from)
	if next == from || (next < len(line) && line[next] != '\t') {
		return 0, 0, badLine(i, "I%d is %s, not a whole number; leave it empty if unknown", f+1, quote(line[i:cellEnd(line, i)]))
	}
	if !fits || u > math.MaxInt64 {
		return 0, 0, badLine(i, "I%d is %s, beyond 63 bits", f+1, quote(line[i:next]))
	}
	if neg {
		return -int64(u), next, nil
	}
	return int64(u), next, nil
}

func (p *criteoParser) hex(line []byte, i, f int) (v uint64, next int, e *lineError) {
	for next = i; next < len(line) && line[next] != '\t'; next++ {
		d := p.digits[line[next]]
		if d == notHex {
			return 0, 0, badLine(i, "C%d is %s, not a hexadecimal number; text categories can be read with --format csv and a --schema",
				f-criteoInts+1, quote(line[i:cellEnd(line, i)]))
		}
		v = v<<4 | uint64(d)
	}
	if next-i > 16 {
		return 0, 0, badLine(i, "C%d is %s: id beyond 64 bits; at most 16 hexadecimal digits", f-criteoInts+1, quote(line[i:cellEnd(line, i)]))
	}
	return v, next, nil
}

func criteoNames() []string {
	names := make([]string, criteoFields)
	for f := range names {
		if f < criteoInts {
			names[f] = "I" + strconv.Itoa(f+1)
		} else {
			names[f] = "C" + strconv.Itoa(f-criteoInts+1)
		}
	}
	return names
}
