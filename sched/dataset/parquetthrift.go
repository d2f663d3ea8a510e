package dataset

import (
	"encoding/binary"
	"errors"
)

// errThriftShort is of a text that ends within what it describes.
var errThriftShort = errors.New("it ends too early")

// thriftDepth bounds the nesting: what Parquet has is nested up to seven deep.
const thriftDepth = 32

// thriftText goes through a struct of Thrift's compact protocol, in which Parquet has its
// footer and the headers of its pages. The library takes memory for the lengths that it
// finds there, so they are held against the text first.
type thriftText struct {
	text   []byte
	at     int
	depth  int
	path   []int16                         // numbers of the fields around the one at hand, and its own
	number func(path []int16, value int32) // of each whole number of 32 bits
}

func (t *thriftText) byte() (byte, error) {
	if t.at >= len(t.text) {
		return 0, errThriftShort
	}
	t.at++
	return t.text[t.at-1], nil
}

func (t *thriftText) uvarint() (uint64, error) {
	v, n := binary.Uvarint(t.text[t.at:])
	if n < 0 {
		return 0, errors.New("it has a number of more than 64 bits")
	}
	if n == 0 {
		return 0, errThriftShort
	}
	t.at += n
	return v, nil
}

// skip passes n bytes, or says that there are not so many.
func (t *thriftText) skip(n uint64) error {
	if n > uint64(len(t.text)-t.at) {
		return errThriftShort
	}
	t.at += int(n)
	return nil
}

// fields goes through a struct.
func (t *thriftText) fields() error {
	t.path = append(t.path, 0)
	defer func() { t.path = t.path[:len(t.path)-1] }()
	for {
		b, err := t.byte()
		if err != nil || b == 0 {
			return err
		}
		id := &t.path[len(t.path)-1]
		if b>>4 != 0 {
			*id += int16(b >> 4)
		} else {
			v, err := t.uvarint()
			if err != nil {
				return err
			}
			*id = int16(unzigzag(v))
		}
		if kind := b & 15; kind != 1 && kind != 2 { // true and false: no more than their kind
			if err := t.value(kind); err != nil {
				return err
			}
		}
	}
}

// unzigzag reads numbers as the library does: of longer ones the upper bits are left aside.
func unzigzag(v uint64) int32 { return int32(uint32(v)>>1) ^ -int32(v&1) }

func (t *thriftText) value(kind byte) error {
	switch kind {
	case 1, 2, 3: // booleans of a list; bytes
		return t.skip(1)
	case 4, 5, 6:
		v, err := t.uvarint()
		if err == nil && kind == 5 {
			t.number(t.path, unzigzag(v))
		}
		return err
	case 7:
		return t.skip(8)
	case 8:
		n, err := t.uvarint()
		if err != nil {
			return err
		}
		return t.skip(n)
	}
	if t.depth == thriftDepth {
		return errors.New("it is nested too deeply")
	}
	t.depth++
	defer func() { t.depth-- }()
	switch kind {
	case 9, 10:
		return t.list()
	case 12:
		return t.fields()
	}
	return errors.New("it has a field of a kind that Parquet has none of")
}

func (t *thriftText) list() error {
	b, err := t.byte()
	if err != nil {
		return err
	}
	n := uint64(b >> 4)
	if n == 15 {
		if n, err = t.uvarint(); err != nil {
			return err
		}
	}
	if n > uint64(len(t.text)-t.at) { // each takes a byte at least
		return errThriftShort
	}
	for range n {
		if err := t.value(b & 15); err != nil {
			return err
		}
	}
	return nil
}
