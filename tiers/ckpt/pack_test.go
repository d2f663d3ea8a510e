package ckpt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// savedBytes is what packing has saved in a generation's own parts.
func savedBytes(t *testing.T, m *Model) (saved int64) {
	t.Helper()
	mine := func(of *Manifest, _ *Part) bool { return of.Number == m.Number }
	check(t, m.each(background, 1, mine, func(_ context.Context, r *partReader) error {
		whole := int64(headerBytes + footerBytes)
		for {
			b, _, _, err := r.next()
			if err == io.EOF {
				saved += whole - r.part.Bytes
				return nil
			}
			if err != nil {
				return err
			}
			whole += int64(blockHead + len(b))
		}
	}))
	return saved
}

// slowlyApart is apart, bit by bit.
func slowlyApart(from []byte, record int) []byte {
	to := make([]byte, len(from))
	n := len(from) / record / 8 * 8
	for i := range n {
		for bit := range 8 * record {
			if from[i*record+bit/8]>>(bit%8)&1 == 1 {
				at := bit*n + i
				to[at/8] |= 1 << (at % 8)
			}
		}
	}
	copy(to[n*record:], from[n*record:])
	return to
}

// TestApart holds the order of bits to the plain way, for any number of records.
func TestApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 11))
	for range 500 {
		record := 1 + rng.IntN(150)
		b := make([]byte, rng.IntN(4000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		got, back := make([]byte, len(b)), make([]byte, len(b))
		apart(got, b, record)
		if !bytes.Equal(got, slowlyApart(b, record)) {
			t.Fatalf("%d bytes of records of %d: another order than the plain way's", len(b), record)
		}
		if together(back, got, record); !bytes.Equal(back, b) {
			t.Fatalf("%d bytes of records of %d do not come back", len(b), record)
		}
	}
}

// TestPack: what is packed comes back and saves a sixteenth, and noise is left
// as it is.
func TestPack(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 12))
	var p packer
	var u unpacker
	for range 300 {
		record, n := 4*(1+rng.IntN(40)), 64+rng.IntN(blockBytes)
		block, noise := make([]byte, blockHead+n), rng.IntN(33)
		for at := blockHead; at+4 <= len(block); at += 4 {
			binary.LittleEndian.PutUint32(block[at:], uint32(rng.Uint64()&(1<<noise-1)))
		}
		b := p.pack(block, record)
		switch {
		case b == nil && noise < 16 && n > 32*record:
			t.Fatalf("%d bytes in records of %d with %d random bits of 32 were not packed", n, record, noise)
		case b == nil:
			continue
		case noise == 32 || len(b) > len(block)-n/packGain:
			t.Fatalf("%d bytes with %d random bits of 32 were packed to %d", n, noise, len(b)-blockHead)
		}
		got, err := u.unpack(b[blockHead:], record, n)
		check(t, err)
		if !bytes.Equal(got, block[blockHead:]) {
			t.Fatalf("%d bytes in records of %d do not come back", n, record)
		}
		if _, err := u.unpack(b[blockHead:], record, n-1); err == nil {
			t.Fatalf("%d bytes were unpacked where %d may be", n, n-1)
		}
	}
}

// FuzzUnpack: no bytes make more than the limit of them, and none panic.
func FuzzUnpack(f *testing.F) {
	var p packer
	f.Add(bytes.Clone(p.pack(make([]byte, blockHead+4000), 40)[blockHead:]), 40)
	f.Add([]byte{255, 255, 255, 255, 0x1f, 0, 1, 0}, 8)
	f.Add([]byte{1, 0}, 4)
	f.Fuzz(func(t *testing.T, b []byte, record int) {
		var u unpacker
		const limit = 1 << 16
		if got, err := u.unpack(b, 1+int(uint(record)%200), limit); err == nil && len(got) > limit {
			t.Fatalf("%d bytes, at most %d may be", len(got), limit)
		}
	})
}

// TestPackedHistory lays deltas over bases, packed or not as it comes, as a job
// does that is resumed with another --checkpoint-compress, and adds them up.
func TestPackedHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(t), 13))
	dir := t.TempDir()
	h := testHistory(t, dir, 0)
	w := newTwin(rng.Uint64())
	w.small = true
	saved := int64(0)
	for i := range 10 {
		w.train(200)
		o := NextOptions{Delta: i%5 > 0, Compress: []string{CompressNone, CompressLZ4}[(i+i/5)%2]}
		m, err := w.commit(h, o, 1+rng.IntN(3))
		check(t, err)
		if (m.Format == FormatPacked) != (o.Compress == CompressLZ4) {
			t.Fatalf("generation %d, packed by %q, has format %d", m.Number, o.Compress, m.Format)
		}
		got, err := Open(dir)
		check(t, err)
		check(t, w.same(got, 1+rng.IntN(3)))
		s := savedBytes(t, got)
		if saved += s; s > 0 && o.Compress == CompressNone {
			t.Fatalf("generation %d is not packed, and saved %d bytes", m.Number, s)
		}
	}
	if saved == 0 {
		t.Error("nothing was packed")
	}
	sum, err := h.Merge(background, 0, 2)
	check(t, err)
	if got, err := Open(dir); err != nil || sum.Compress != got.Chain()[0].Compress || w.same(got, 2) != nil {
		t.Errorf("the sum of all, packed by %q: %v", sum.Compress, err)
	}
	wellVerified(t, dir)
}

// TestPackedDamage flips one bit after another of a packed part, and makes up
// blocks whose checksum is right.
func TestPackedDamage(t *testing.T) {
	dir := t.TempDir()
	h := testHistory(t, dir, 0)
	w := newTwin(7)
	w.small = true
	w.train(300)
	_, err := w.commit(h, NextOptions{Compress: CompressLZ4}, 1)
	check(t, err)
	found, err := filepath.Glob(filepath.Join(dir, "parts-*", "t*.part"))
	if err != nil || len(found) == 0 {
		t.Fatal(err, "no parts")
	}
	part := found[0]
	good, err := os.ReadFile(part)
	check(t, err)
	refused := func(b []byte, what string) {
		t.Helper()
		check(t, os.WriteFile(part, b, 0o666))
		m, err := Open(dir)
		if err == nil {
			err = w.same(m, 1)
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), filepath.Base(part)) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := 0; at < len(good)-footerBytes; at += 37 {
		b := bytes.Clone(good)
		b[at] ^= 1 << (at % 8)
		refused(b, "a flipped bit")
	}
	le := binary.LittleEndian
	n, records := le.Uint32(good[headerBytes:]), le.Uint32(good[headerBytes+4:])
	if records&packed == 0 {
		t.Fatal("the first block is not packed")
	}
	payload := good[headerBytes+blockHead:][:n]
	resealed := func(payload []byte, records uint32) []byte {
		b := bytes.Clone(good)
		copy(b[headerBytes+blockHead:], payload)
		seal := blockHeader(payload, records)
		copy(b[headerBytes:], seal[:])
		return b
	}
	refused(resealed(payload, records&^packed), "a packed block that says it is not")
	refused(resealed(payload, records-1), "a record fewer")
	for _, size := range []uint32{0, 1, le.Uint32(payload) - 1, le.Uint32(payload) + 1, maxBlock, maxBlock + 1, 1<<32 - 1} {
		b := bytes.Clone(payload)
		le.PutUint32(b, size)
		refused(resealed(b, records), "another length")
	}
	b := bytes.Clone(payload)
	for i := packHead; i < len(b); i++ {
		b[i] = 0xff
	}
	refused(resealed(b, records), "bytes that lz4 did not make")
}
