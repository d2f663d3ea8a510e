package child

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"psrt/rdma/feature"
)

// TestUnshare: the child has a network of its own, which ends with it.
func TestUnshare(t *testing.T) {
	c, err := Start(t.Context(), Command{Path: os.Args[0], Env: []string{"PSRT_TEST_CHILD=echo"}, Unshare: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET})
	if err != nil {
		feature.SkipUnless(t, fmt.Errorf("%w: %w", err, feature.ErrNotSupported))
	}
	defer c.Close(func() {})
	mine, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(c.PID()), "ns/net"))
	if err != nil || theirs == mine {
		t.Errorf("the child's network is %s, %v; this one's is %s", theirs, err, mine)
	}
	users, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(c.PID()), "uid_map"))
	var inside, outside, size int
	if _, e := fmt.Sscan(string(users), &inside, &outside, &size); err != nil || e != nil || inside != 0 || outside != os.Getuid() || size != 1 {
		t.Errorf("the child's users are %q, %v, %v; want root for %d alone", users, err, e, os.Getuid())
	}
}
