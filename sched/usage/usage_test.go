package usage

import "testing"

func TestProcess(t *testing.T) {
	before, _ := Process()
	if before < 1<<20 {
		t.Fatalf("peak memory %d bytes: a Go test binary has more", before)
	}
	b := make([]byte, 256<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after, cpu := Process()
	if after < before || after < 256<<20 || cpu <= 0 {
		t.Fatalf("after touching 256 MiB: peak %d bytes (before %d), %g CPU seconds", after, before, cpu)
	}
}
