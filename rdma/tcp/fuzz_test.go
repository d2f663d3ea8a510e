package tcp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"psrt/rdma"
	"psrt/rdma/wire"
)

func FuzzDecodeHeader(f *testing.F) {
	for _, h := range []header{
		{kind: uint8(rdma.OpWrite), length: 8, total: 8, seq: 1, key: 2, addr: remoteBase},
		{kind: uint8(rdma.OpRead), imm: 100, offset: 5, total: 105, seq: 2},
		{kind: uint8(rdma.OpCompareSwap), length: 16, total: 8},
		{kind: kindNak, seq: 9, ack: 8, status: 4},
		{kind: kindReadData, length: 1 << 20, offset: 1 << 20, total: 2 << 20},
	} {
		var b [frameUnit]byte
		h.encode(b[:])
		f.Add(b[:headerSize])
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n............................"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err != nil {
			if !errors.Is(err, wire.ErrFrame) {
				t.Fatalf("error outside the set: %v", err)
			}
			return
		}
		if h.total > maxMessage || h.length > maxMessage {
			t.Fatalf("accepted %+v", h)
		}
		switch rdma.Op(h.kind) {
		case rdma.OpSend, rdma.OpWrite, rdma.OpWriteImm:
			if uint64(h.offset)+uint64(h.length) > uint64(h.total) {
				t.Fatalf("accepted a part outside its message: %+v", h)
			}
		case rdma.OpRead:
			if uint64(h.offset)+uint64(h.imm) > uint64(h.total) {
				t.Fatalf("accepted a part outside its message: %+v", h)
			}
		}
	})
}

func FuzzDecodeAddress(f *testing.F) {
	a := address{streams: 4, id: 7, candidates: []string{"10.0.0.1:99", "[::1]:5"}}
	f.Add(a.encode())
	f.Add((&address{streams: 1}).encode())
	f.Add([]byte{1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := decodeAddress(b)
		if err != nil {
			if !errors.Is(err, rdma.ErrInvalid) {
				t.Fatalf("error outside the set: %v", err)
			}
			return
		}
		if again := a.encode(); !bytes.Equal(again, b) {
			t.Fatalf("%x accepted, but encodes to %x", b, again)
		}
	})
}

func FuzzDecodeHello(f *testing.F) {
	var nonce [nonceSize]byte
	h := hello{target: 1, dialer: 2, index: 1, streams: 2, direction: dialerAnswers, timeout: time.Second}
	f.Add(h.encode(&nonce))
	f.Add(make([]byte, helloSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err != nil {
			return
		}
		if h.index >= h.streams || h.streams > maxStreams || h.direction > dialerAnswers || h.timeout < minOpTimeout || h.timeout > maxOpTimeout {
			t.Fatalf("accepted %+v", h)
		}
		proved(b, &nonce)
	})
}
