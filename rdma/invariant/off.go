//go:build !psrt_invariants

package invariant

// Enabled tells whether this build checks.
const Enabled = false

// Assert panics with message if cond is false, in builds that check.
func Assert(cond bool, message string) {}

// Mangle overwrites a released buffer, in builds that check, so that a use
// after release shows at once.
func Mangle(b []byte) {}

// CloseChecker watches one handle; see the build with the tag.
type CloseChecker struct{}

// Open records the handle's birth.
func (c *CloseChecker) Open(kind, purpose string) {}

// Close records its end; a second call panics in builds that check.
func (c *CloseChecker) Close() {}

// CloseOnce records its end where closing twice is allowed (a parent closes
// its children, their owner may do it again).
func (c *CloseChecker) CloseOnce() {}

// AssertOpen panics if the handle was closed, in builds that check.
func (c *CloseChecker) AssertOpen() {}

// Leaks describes the handles still open, with their creating stacks.
func Leaks() []string { return nil }
