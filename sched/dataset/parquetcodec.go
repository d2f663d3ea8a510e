package dataset

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// boundCodecs has the library unpack by codecs that take no memory for what packed bytes
// say of their own size: those of its own for snappy and zstd make room for that, before
// they read on. And pages that have nulls alone unpack to nothing: some writers leave
// nothing of them, and where there is something the library's brotli takes it for too much.
var boundCodecs = sync.OnceValue(func() error {
	unpack, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	c := compress.Codecs
	for _, kind := range []compress.Compression{c.Snappy, c.Gzip, c.Brotli, c.Zstd, c.Lz4Raw} {
		codec, err := compress.GetCodec(kind)
		if err != nil {
			return err
		}
		decode := func(dst, src []byte) ([]byte, error) { return compress.Decode(codec, dst, src) }
		switch kind {
		case c.Snappy:
			decode = unsnap
		case c.Brotli:
			decode = func(dst, src []byte) ([]byte, error) { return unstream(codec.(compress.StreamingCodec), dst, src) }
		case c.Zstd:
			decode = func(dst, src []byte) ([]byte, error) { return unpack.DecodeAll(src, dst[:0:len(dst)]) }
		}
		compress.RegisterCodec(kind, boundCodec{codec, decode})
	}
	return nil
})

func unsnap(dst, src []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return nil, err
	}
	if n > len(dst) {
		return nil, fmt.Errorf("it unpacks to %d bytes, where its page says %d", n, len(dst))
	}
	return snappy.Decode(dst, src)
}

func unstream(codec compress.StreamingCodec, dst, src []byte) ([]byte, error) {
	r := codec.NewReader(bytes.NewReader(src))
	defer r.Close()
	if _, err := io.ReadFull(r, dst); err != nil {
		return nil, err
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || err != io.EOF {
		return nil, fmt.Errorf("it unpacks to more than %d bytes, or does not end (%v)", len(dst), err)
	}
	return dst, nil
}

type boundCodec struct {
	compress.Codec
	decode func(dst, src []byte) ([]byte, error)
}

func (c boundCodec) DecodeWithError(dst, src []byte) ([]byte, error) {
	if len(src) == 0 {
		return dst[:0], nil
	}
	return c.decode(dst, src)
}

func (c boundCodec) Decode(dst, src []byte) []byte {
	got, err := c.DecodeWithError(dst, src)
	if err != nil {
		panic(err) // as the library's codecs do: this is the form that has no error
	}
	return got
}
