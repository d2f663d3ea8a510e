package ssd

import (
	"bytes"
	"hash/crc32"
	"reflect"
	"testing"
)

var sampleRecord = record{full: true, store: [16]byte{1, 2, 3}, serial: 7, commit: 5, clock: 1 << 41, note: []byte("step 12"),
	logs: []logEntry{{id: 0, name: "ads", since: 9, layout: layout{record: 256, page: 512, entries: 55, slots: 43, data: 11264, pages: 88}}},
	segs: []segEntry{{segment: 3, log: 0, local: 1, pages: 88, gen: 44, kind: kindCopy, bad: []pageRange{{4, 4}}}, {segment: 9, log: noLog}}}

// FuzzRecord: whatever bytes a manifest holds, reading them ends with a record
// that is written back as it was, or with an error.
func FuzzRecord(f *testing.F) {
	f.Add(sampleRecord.put(nil))
	f.Add((&record{}).put(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := recordLength(b); n > 0 && n <= len(b) {
			b = append([]byte(nil), b...)
			le.PutUint32(b[4:], crc32.Checksum(b[8:n], castagnoli)) // past the sum, to what is behind it
		}
		var x, y record
		if x.get(b) != nil {
			return
		}
		if err := y.get(x.put(nil)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("%+v is written back as %+v", x, y)
		}
	})
}

// FuzzPage: likewise of summary pages.
func FuzzPage(f *testing.F) {
	l, err := newLayout(256, 512, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	b := make([]byte, 512)
	setEntryKey(b, 0, 42)
	setDeletion(b, &l, 1)
	setEntryKey(b, 1, 43)
	(&pageInfo{store: 1, gen: 2, time: 3, segment: 4, log: 5, page: 6, entries: 2, records: 1}).seal(b)
	f.Add(b)
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 512 {
			return
		}
		b = append([]byte(nil), b[:512]...)
		le.PutUint32(b, pageMagic)
		le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
		p, why := openPage(b, &l)
		if why != "" {
			return
		}
		for i := range p.records {
			_ = recordKey(b, &l, i)
		}
		c := append([]byte(nil), b...)
		p.seal(c)
		if q, why := openPage(c, &l); why != "" || q != p {
			t.Fatalf("%+v is written back as %+v, %s", p, q, why)
		}
		if !bytes.Equal(b[pageHeader:], c[pageHeader:]) {
			t.Fatal("entries have changed")
		}
	})
}

// FuzzIdentity: likewise of a directory's identity.
func FuzzIdentity(f *testing.F) {
	b := make([]byte, identityBytes)
	(&identity{id: [16]byte{1}, index: 1, count: 2, block: 512, segment: 1 << 20}).put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= identityBytes {
			b = append([]byte(nil), b[:identityBytes]...)
			le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
		}
		var x, y identity
		if x.get(b) != "" {
			return
		}
		c := make([]byte, identityBytes)
		x.put(c)
		if why := y.get(c); why != "" || x != y {
			t.Fatalf("%+v is written back as %+v: %s", x, y, why)
		}
	})
}
