package gen

import (
	"strconv"

	"psrt/sched/dataset"
)

// formatter writes a row as a line.
type formatter interface {
	line(buf []byte, r *row) []byte
}

// ffmLine writes libffm with ids hashed over all 64 bits. Ids that a field
// misses (there are none in zipf data) would be left out.
type ffmLine struct{ seed uint64 }

// svmLine is the same without the fields: a feature's position is its field.
type svmLine struct{ ffmLine }

func (l svmLine) line(buf []byte, r *row) []byte { return l.features(buf, r, false) }

func (l ffmLine) line(buf []byte, r *row) []byte { return l.features(buf, r, true) }

func (l ffmLine) features(buf []byte, r *row, fielded bool) []byte {
	buf = append(buf, '0'+r.label)
	for f, code := range r.codes {
		if code == 0 {
			continue
		}
		buf = append(buf, ' ')
		if fielded {
			buf = strconv.AppendUint(buf, uint64(f), 10)
			buf = append(buf, ':')
		}
		buf = strconv.AppendUint(buf, mix(l.seed^(uint64(f)<<32|uint64(code))), 10) // a bijection: no two ids meet
		buf = append(buf, ":1"...)
	}
	return append(buf, '\n')
}

// criteoLine writes the Criteo layout. An integer's code is its logarithmic
// bucket; the number is any in the bucket.
type criteoLine struct {
	seed    uint32
	buckets []uint64
}

func newCriteoLine(seed uint64) criteoLine {
	return criteoLine{seed: uint32(mix(seed)), buckets: dataset.LogBuckets()}
}

func (l criteoLine) line(buf []byte, r *row) []byte {
	buf = append(buf, '0'+r.label)
	for f, code := range r.codes {
		buf = append(buf, '\t')
		switch {
		case code == 0:
		case f < criteoInts:
			buf = strconv.AppendUint(buf, l.number(code, &r.rest), 10)
		default:
			buf = appendHex8(buf, scramble32(code, l.seed+uint32(f)))
		}
	}
	return append(buf, '\n')
}

// number: codes 1 to 3 are 0 to 2, later ones the buckets from 3 on.
func (l criteoLine) number(code uint32, s *stream) uint64 {
	if code <= 3 {
		return uint64(code - 1)
	}
	k := code - 3 // bucket 1 begins at 3
	return l.buckets[k] + s.next()%(l.buckets[k+1]-l.buckets[k])
}

func appendHex8(buf []byte, x uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		buf = append(buf, digits[x>>shift&15])
	}
	return buf
}
