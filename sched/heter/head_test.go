package heter

import (
	"bytes"
	"errors"
	"testing"
)

func FuzzHead(f *testing.F) {
	var good [headBytes]byte
	(&Head{Kind: 1, Examples: 3, Step: 9, FirstRow: 7, Epoch: 2, Rows: 12, Floats: 5}).encode(good[:])
	f.Add(good[:], 5)
	f.Add(good[:], 4)
	f.Add(good[:headBytes-1], 5)
	f.Fuzz(func(t *testing.T, b []byte, most int) {
		var h Head
		if err := h.decode(b, most); err != nil {
			if !errors.Is(err, ErrProtocol) {
				t.Fatalf("an error without its mark: %v", err)
			}
			return
		}
		if int64(h.Floats) > int64(most) {
			t.Fatalf("%d floats were taken, the most is %d", h.Floats, most)
		}
		var again [headBytes]byte
		h.encode(again[:])
		if !bytes.Equal(again[:36], b[:36]) {
			t.Fatalf("% x was read and is written as % x", b[:36], again[:36])
		}
	})
}

func TestHeadIsRefused(t *testing.T) {
	var b [headBytes]byte
	(&Head{Floats: 5}).encode(b[:])
	var h Head
	if h.decode(b[:], 5) != nil || h.decode(b[:], 4) == nil || h.decode(b[:40], 5) == nil {
		t.Error("a head is taken where it must not be, or not where it must")
	}
	b[0] = version + 1
	if h.decode(b[:], 5) == nil {
		t.Error("another version was taken")
	}
}
