//go:build psrt_invariants

package invariant

import (
	"fmt"
	"runtime/debug"
	"sort"
	"sync"
)

// Enabled tells whether this build checks.
const Enabled = true

// Assert panics with message if cond is false.
func Assert(cond bool, message string) {
	if !cond {
		panic("psrt invariant violated: " + message)
	}
}

// MangledByte fills released buffers: as a float32 it is -6.1e17, as an index
// far out of range, and easy to recognise in a dump.
const MangledByte = 0xDB

// Mangle overwrites a released buffer.
func Mangle(b []byte) {
	for i := range b {
		b[i] = MangledByte
	}
}

// CloseChecker watches one handle. The zero value is a handle never opened.
type CloseChecker struct {
	mu     sync.Mutex
	id     uint64
	what   string
	closed bool
	stack  []byte // of the close
}

type openHandle struct {
	what  string
	stack []byte
}

var open = struct {
	mu   sync.Mutex
	next uint64
	byID map[uint64]openHandle
}{byID: map[uint64]openHandle{}}

// Open records the handle's birth with the caller's stack.
func (c *CloseChecker) Open(kind, purpose string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.what = fmt.Sprintf("%s %q", kind, purpose)
	open.mu.Lock()
	defer open.mu.Unlock()
	open.next++
	c.id = open.next
	open.byID[c.id] = openHandle{what: c.what, stack: debug.Stack()}
}

// Close records the handle's end; a second call panics with the stack of the
// first.
func (c *CloseChecker) Close() {
	if !c.close() {
		panic(fmt.Sprintf("psrt invariant violated: %s closed twice; first at\n%s", c.what, c.stack))
	}
}

// CloseOnce records the handle's end where closing twice is allowed.
func (c *CloseChecker) CloseOnce() { c.close() }

func (c *CloseChecker) close() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed, c.stack = true, debug.Stack()
	open.mu.Lock()
	defer open.mu.Unlock()
	delete(open.byID, c.id)
	return true
}

// AssertOpen panics if the handle was closed.
func (c *CloseChecker) AssertOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		panic(fmt.Sprintf("psrt invariant violated: %s used after close at\n%s", c.what, c.stack))
	}
}

// Leaks describes the handles still open, oldest first, with their creating
// stacks.
func Leaks() []string {
	open.mu.Lock()
	defer open.mu.Unlock()
	ids := make([]uint64, 0, len(open.byID))
	for id := range open.byID {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	var out []string
	for _, id := range ids {
		h := open.byID[id]
		out = append(out, fmt.Sprintf("%s never closed; created at\n%s", h.what, h.stack))
	}
	return out
}
