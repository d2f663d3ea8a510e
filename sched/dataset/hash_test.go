package dataset

import (
	"fmt"
	"math/bits"
	"testing"

	"psrt/csrc/seedtest"
)

// Stored models depend on these figures: a change here needs a new model format.
func TestKeysGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uint64
		want string
	}{
		{"Key(0,0)", Key(0, 0), "48218226ff3cd4bf"},
		{"Key(38,0x05db9164)", Key(38, 0x05db9164), "ef9bd43452f24add"},
		{"MissingKey(3)", MissingKey(3), "f78241b9039faee0"},
		{"NumberKey(3)", NumberKey(3), "8a5629c6c5786f96"},
		{"TextKey(1,\"\")", TextKey(1, nil), "3530b4feab0edb4f"},
		{"TextKey(1,Private)", TextKey(1, []byte("Private")), "02091506d08f4944"},
		{"TextKey(1,Never-married)", TextKey(1, []byte("Never-married")), "d3159a5f7a3154d6"},
	} {
		if got := fmt.Sprintf("%016x", c.got); got != c.want {
			t.Errorf("%s = %s, want %s", c.name, got, c.want)
		}
	}
}

// Distinct values of one field never collide; over fields and kinds of key a
// collision among these would be a one in 10^9 accident.
func TestKeysDistinct(t *testing.T) {
	seen := make(map[uint64]string)
	add := func(k uint64, what string) {
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", what, other)
		}
		seen[k] = what
	}
	for f := range 40 {
		add(MissingKey(f), fmt.Sprint("missing ", f))
		add(NumberKey(f), fmt.Sprint("number ", f))
		for v := range uint64(2000) {
			add(Key(f, v), fmt.Sprint(f, ":", v))
			add(TextKey(f, fmt.Append(nil, v)), fmt.Sprint(f, ":text ", v))
		}
		for n := range 40 {
			add(TextKey(f, make([]byte, n)), fmt.Sprint(f, ":zeros ", n))
		}
	}
}

// One bit of input changes about half of the key: shards stay even.
func TestKeysAvalanche(t *testing.T) {
	r := seedtest.Rand(t)
	text := make([]byte, 20)
	total, n := 0, 0
	for range 2000 {
		for i := range text {
			text[i] = byte(r.Uint32())
		}
		before, v := TextKey(2, text), r.Uint64()
		bit := r.IntN(len(text) * 8)
		text[bit/8] ^= 1 << (bit % 8)
		total += bits.OnesCount64(before^TextKey(2, text)) + bits.OnesCount64(Key(2, v)^Key(2, v^1<<r.IntN(64)))
		n += 2
	}
	if mean := float64(total) / float64(n); mean < 31 || mean > 33 {
		t.Errorf("one input bit changes %.2f of 64 key bits on average, want 32", mean)
	}
}
