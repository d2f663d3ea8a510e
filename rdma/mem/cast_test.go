package mem

import (
	"encoding/binary"
	"math"
	"testing"
)

func TestCastsShareTheBytes(t *testing.T) {
	a, err := New(Config{Size: 64, Purpose: "cast"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := a.Bytes()
	Float32s(b)[1] = 1.5
	if got := binary.NativeEndian.Uint32(b[4:]); got != math.Float32bits(1.5) {
		t.Errorf("float32 at 4 is %#x", got)
	}
	Uint64s(b)[2], Uint32s(b)[6], Int32s(b)[7] = 1<<40, 7, -1
	if binary.NativeEndian.Uint64(b[16:]) != 1<<40 || binary.NativeEndian.Uint32(b[24:]) != 7 || binary.NativeEndian.Uint32(b[28:]) != 1<<32-1 {
		t.Errorf("bytes %v", b[16:32])
	}
	if got := Bytes(Uint32s(b)[1:3]); len(got) != 8 || &got[0] != &b[4] {
		t.Error("Bytes is not the inverse")
	}
	if Float32s(nil) != nil || Bytes[float32](nil) != nil {
		t.Error("nothing did not stay nothing")
	}
}

func TestMisalignedCastsPanic(t *testing.T) {
	b := make([]uint64, 4)
	raw := Bytes(b)
	for name, f := range map[string]func(){
		"address":  func() { Float32s(raw[1:5]) },
		"length":   func() { Float32s(raw[:6]) },
		"by eight": func() { Uint64s(raw[4:12]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
