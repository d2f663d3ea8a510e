//go:build psrt_invariants

package invariant

import (
	"bytes"
	"strings"
	"testing"
)

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		p := recover()
		if s, _ := p.(string); !strings.Contains(s, want) {
			t.Errorf("panic %v, want one with %q", p, want)
		}
	}()
	f()
}

func TestCloseChecker(t *testing.T) {
	var c CloseChecker
	c.Open("region", "rows")
	c.AssertOpen()
	if l := strings.Join(Leaks(), ""); !strings.Contains(l, `region "rows"`) || !strings.Contains(l, "TestCloseChecker") {
		t.Errorf("leak not described: %s", l)
	}
	var out bytes.Buffer
	if got := runAndCheck(fakeRun(0), &out); got != 1 || !strings.Contains(out.String(), "never closed") {
		t.Errorf("Main with a leak: status %d, %s", got, out.String())
	}
	c.Close()
	if len(Leaks()) != 0 {
		t.Errorf("closed handle still listed: %v", Leaks())
	}
	mustPanic(t, "closed twice", c.Close)
	mustPanic(t, "used after close", c.AssertOpen)
	c.CloseOnce()
}

func TestAssertAndMangle(t *testing.T) {
	Assert(true, "fine")
	mustPanic(t, "index in range", func() { Assert(false, "index in range") })
	b := []byte{1, 2, 3}
	Mangle(b)
	if !bytes.Equal(b, []byte{MangledByte, MangledByte, MangledByte}) {
		t.Errorf("not mangled: %v", b)
	}
}
