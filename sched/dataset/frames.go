package dataset

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/pierrec/lz4/v4"
)

// A compressed file is a row of gzip members, of zstd frames or of lz4 frames. zstd and lz4
// share the skippable frames: a magic number, a length, and bytes that are no data. They may
// stand before, between and after the frames; pzstd writes one before each.
const (
	magicSkippable    = 0x184d2a50 // the lowest four bits are free
	magicZstd         = 0xfd2fb528
	magicLZ4          = 0x184d2204
	magicLZ4Legacy    = 0x184c2102
	skippableHead     = 8
	lz4LegacyBlock    = 8 << 20
	gzipMagic0        = 0x1f
	gzipMagic1        = 0x8b
	lz4HeadFixed      = 4 + 2 + 1 // magic number, two bytes of flags, checksum
	lz4FlagBlockSum   = 1 << 4
	lz4FlagSize       = 1 << 3
	lz4FlagContentSum = 1 << 2
	lz4FlagDictionary = 1 << 0
)

// errNotLZ4 reports bytes between or after lz4 frames that belong to none.
var errNotLZ4 = errors.New("the bytes after a frame begin no other lz4 frame")

// errNoFrame reports skippable frames before something else than zstd or lz4.
var errNoFrame = errors.New("skippable frames are followed by neither a zstd nor an lz4 frame")

// magicOf returns the next four bytes of raw as a number, and how many bytes there are of them.
func magicOf(raw *bufio.Reader) (magic uint32, n int, err error) {
	head, err := raw.Peek(4)
	switch {
	case err == nil:
		return binary.LittleEndian.Uint32(head), 4, nil
	case err == io.EOF:
		return 0, len(head), nil
	}
	return 0, 0, err
}

// skipFrames discards the skippable frames that raw stands before, and returns their number.
func skipFrames(raw *bufio.Reader) (skipped int, err error) {
	for ; ; skipped++ {
		magic, n, err := magicOf(raw)
		if err != nil || n < 4 || magic&^0xf != magicSkippable {
			return skipped, err
		}
		head, err := raw.Peek(skippableHead)
		if err != nil {
			return skipped, unexpected(err)
		}
		left := skippableHead + int64(binary.LittleEndian.Uint32(head[4:]))
		if n, err := io.CopyN(io.Discard, raw, left); n < left {
			return skipped, unexpected(err)
		}
	}
}

// unexpected turns the end of a file within a frame into an error.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// packingOf tells how the file is compressed that raw begins with, "" for not at all. It
// discards skippable frames before the first frame of data.
func packingOf(raw *bufio.Reader) (kind string, err error) {
	head, err := raw.Peek(2)
	if err != nil && err != io.EOF {
		return "", err
	}
	if bytes.Equal(head, []byte{gzipMagic0, gzipMagic1}) {
		return "gzip", nil
	}
	skipped, err := skipFrames(raw)
	if err != nil {
		return "zstd or lz4", err
	}
	magic, n, err := magicOf(raw)
	switch {
	case err != nil:
		return "", err
	case n == 4 && magic == magicZstd, n == 0 && skipped > 0:
		return "zstd", nil
	case n == 4 && (magic == magicLZ4 || magic == magicLZ4Legacy):
		return "lz4", nil
	case skipped > 0 && n < 4:
		return "zstd or lz4", io.ErrUnexpectedEOF
	case skipped > 0:
		return "zstd or lz4", errNoFrame
	}
	return "", nil
}

// gzipMembers reads one gzip member after the other, and treats the bytes behind the last one
// as gzip(1) does: zeros are padding, others are ignored and reported.
type gzipMembers struct {
	raw     *bufio.Reader
	member  *gzip.Reader
	ended   bool
	ignored func() // called once, at the first byte that is ignored
}

func newGzipMembers(raw *bufio.Reader, ignored func()) (*gzipMembers, error) {
	member, err := gzip.NewReader(raw)
	if err != nil {
		return nil, unexpected(err)
	}
	member.Multistream(false)
	return &gzipMembers{raw: raw, member: member, ignored: ignored}, nil
}

func (g *gzipMembers) Read(p []byte) (int, error) {
	for !g.ended {
		n, err := g.member.Read(p)
		if err == io.EOF {
			err = g.next()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// next goes to the next member; io.EOF: there is none.
func (g *gzipMembers) next() error {
	head, err := g.raw.Peek(2)
	if err != nil && err != io.EOF {
		return err
	}
	if len(head) > 0 && head[0] == gzipMagic0 && (len(head) < 2 || head[1] == gzipMagic1) {
		err := g.member.Reset(g.raw)
		g.member.Multistream(false)
		return unexpected(err)
	}
	g.ended = true
	for {
		switch c, err := g.raw.ReadByte(); {
		case err != nil:
			return err
		case c != 0:
			g.ignored()
			return io.EOF
		}
	}
}

// lz4Frames reads lz4 frames, of the format of today and of the legacy one, and passes over
// skippable ones.
type lz4Frames struct {
	raw    *bufio.Reader
	frame  io.Reader // nil between two frames
	modern *lz4.Reader
	legacy *lz4Legacy
}

func (z *lz4Frames) Read(p []byte) (int, error) {
	for {
		if z.frame == nil {
			if err := z.next(); err != nil {
				return 0, err
			}
		}
		n, err := z.frame.Read(p)
		if err == io.EOF {
			z.frame, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next goes to the next frame of data; io.EOF: there is none.
func (z *lz4Frames) next() error {
	if _, err := skipFrames(z.raw); err != nil {
		return err
	}
	magic, n, err := magicOf(z.raw)
	switch {
	case err != nil:
		return err
	case n == 0:
		return io.EOF
	case n < 4:
		return io.ErrUnexpectedEOF
	case magic == magicLZ4:
		if z.modern == nil {
			z.modern = lz4.NewReader(nil)
		}
		z.modern.Reset(&lz4Frame{raw: z.raw})
		z.frame = z.modern
	case magic == magicLZ4Legacy:
		if z.legacy == nil {
			z.legacy = &lz4Legacy{raw: z.raw}
		}
		if _, err := z.raw.Discard(4); err != nil {
			return err
		}
		z.legacy.total = 0
		z.frame = z.legacy
	default:
		return errNotLZ4
	}
	return nil
}

// lz4Frame gives the bytes of one frame and no more: the library would take those behind it
// for the same kind of frame.
type lz4Frame struct {
	raw        *bufio.Reader
	begun      bool
	ended      bool
	left       int64 // bytes before the length of a block, or the end
	blockSum   int64 // bytes of the checksum behind each block
	contentSum int64 // and behind the last
}

func (f *lz4Frame) Read(p []byte) (int, error) {
	if f.left == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.measure(); err != nil {
			return 0, unexpected(err)
		}
	}
	n, err := f.raw.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, unexpected(err)
}

// measure finds out how many bytes follow that need no look.
func (f *lz4Frame) measure() error {
	if !f.begun {
		head, err := f.raw.Peek(5)
		if err != nil {
			return err
		}
		flags := head[4]
		f.begun, f.left = true, lz4HeadFixed
		if flags&lz4FlagSize != 0 {
			f.left += 8
		}
		if flags&lz4FlagDictionary != 0 {
			f.left += 4
		}
		if flags&lz4FlagBlockSum != 0 {
			f.blockSum = 4
		}
		if flags&lz4FlagContentSum != 0 {
			f.contentSum = 4
		}
		return nil
	}
	head, err := f.raw.Peek(4)
	if err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint32(head); n == 0 {
		f.ended, f.left = true, 4+f.contentSum
	} else {
		f.left = 4 + int64(n&^(1<<31)) + f.blockSum // the highest bit: the block is not compressed
	}
	return nil
}

// lz4Legacy reads a frame of the legacy format behind its magic number: blocks of up to 8 MiB
// of data, each with its compressed length before it, up to the end of the file or the next
// frame. The Linux kernel's has the length of all its data at its end.
type lz4Legacy struct {
	raw     *bufio.Reader
	in, out []byte
	rest    []byte // of out
	total   uint32
}

func (z *lz4Legacy) Read(p []byte) (int, error) {
	for len(z.rest) == 0 {
		if err := z.block(); err != nil {
			return 0, err
		}
	}
	n := copy(p, z.rest)
	z.rest = z.rest[n:]
	return n, nil
}

func (z *lz4Legacy) block() error {
	head, err := z.raw.Peek(5)
	switch {
	case err != nil && err != io.EOF:
		return err
	case len(head) == 0:
		return io.EOF
	case len(head) < 4:
		return io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(head)
	if len(head) == 4 && n == z.total {
		if _, err := z.raw.Discard(4); err != nil {
			return err
		}
		return io.EOF
	}
	if n > uint32(lz4.CompressBlockBound(lz4LegacyBlock)) {
		return io.EOF // the next frame's magic number, or what next refuses
	}
	if _, err := z.raw.Discard(4); err != nil {
		return err
	}
	if uint32(cap(z.in)) < n {
		z.in = make([]byte, n)
	}
	if _, err := io.ReadFull(z.raw, z.in[:n]); err != nil {
		return unexpected(err)
	}
	if z.out == nil {
		z.out = make([]byte, lz4LegacyBlock)
	}
	k, err := lz4.UncompressBlock(z.in[:n], z.out)
	if err != nil {
		return err
	}
	z.rest, z.total = z.out[:k], z.total+uint32(k)
	return nil
}
