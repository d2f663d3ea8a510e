package server

import (
	"testing"

	"psrt/rdma"
	"psrt/sched/compress"
	"psrt/sched/psmsg"
	"psrt/tiers"
)

// Packed pushes that land together while the lane is at something else are each unpacked
// before they are taken, in slots that others have had before: their rows are not those
// of the request.
func TestPackedPushesLandTogether(t *testing.T) {
	l, s, ep := newDoor(t, fetchedAsGranted)
	s.version = psmsg.PackedSince
	_, err := l.mux.Queue(&counting{ep: ep})
	must(t, err)
	const n, rounds = 8, 3
	var sum float32
	for round := range rounds {
		for slot := range 2 {
			g := float32(1 + slot + 2*round)
			sum += g
			grads := make([]float32, n*testDim)
			for i := range grads {
				grads[i] = g
			}
			payload := make([]byte, compress.MaxRows(n, 0, testDim)+8)
			payload = payload[:compress.EncodeRows(payload, compress.Half, grads, 0, testDim, []uint64{1 << (n - 1)}, false, nil, &compress.Scratch{})]
			b := make([]byte, psmsg.RequestBytes)
			(&psmsg.Request{Kind: psmsg.KindPush, Flags: psmsg.FlagPacked, Slot: uint32(slot), Seq: uint64(1 + slot + 2*round),
				Table: testTable, Rows: n, Keys: rdma.RemoteRange{Len: n * 8}, Values: rdma.RemoteRange{Len: uint64(len(payload))}}).Encode(b)
			copy(s.slotBytes(slot), b)
			l.complete(&rdma.Completion{ID: wrID(s.id, 0), Op: rdma.OpRecvImm, Imm: uint32(slot), Bytes: len(b)})
			r := &s.reqs[slot]
			if copy(r.pack.bytes, payload) != len(payload) || len(r.keys) != n {
				t.Fatalf("a push of %d bytes and %d keys, want %d and %d", len(r.pack.bytes), len(r.keys), len(payload), n)
			}
			for i := range r.keys {
				r.keys[i] = uint64(i)
			}
		}
		l.keepFetching()
		if len(l.whole) != 2 {
			t.Fatalf("%d pushes have landed, want 2", len(l.whole))
		}
		l.readyWhole()
		l.settle()
		l.flush()
	}
	if len(ep.replies) != 2*rounds {
		t.Fatalf("%d answers, want %d", len(ep.replies), 2*rounds)
	}
	for _, rep := range ep.replies {
		if rep.Code != psmsg.CodeOK || rep.Rows != 0 {
			t.Errorf("push %d: %s, %d rows refused", rep.Seq, rep.Code, rep.Rows)
		}
	}
	tab := l.tables[testTable]
	look := tiers.Lookup{Keys: []uint64{n - 1}, Rows: make([]uint32, 1)}
	if !tab.rows.Start(&look) || look.Err != nil {
		t.Fatal(look.Err)
	}
	got := make([]float32, testDim)
	tab.rows.Gather(look.Rows, got)
	if got[testDim-1] != -sum {
		t.Errorf("a value is %v, want %v", got[testDim-1], -sum)
	}
	tab.rows.Release(look.Rows)
}

// Over a connection of before compression there are no packed pushes: it ends.
func TestPackedOverAnOldConnection(t *testing.T) {
	l, s, _ := newDoor(t, mapped)
	s.version = psmsg.PackedSince - 1
	b := make([]byte, psmsg.RequestBytes)
	(&psmsg.Request{Kind: psmsg.KindPush, Flags: psmsg.FlagPacked, Seq: 1, Table: testTable}).Encode(b)
	copy(s.slotBytes(0), b)
	l.complete(&rdma.Completion{ID: wrID(s.id, 0), Op: rdma.OpRecvImm, Bytes: len(b)})
	if l.sessions[s.id] != nil || s.reqs[0].busy {
		t.Error("it was taken")
	}
}
