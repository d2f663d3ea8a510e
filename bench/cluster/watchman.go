package cluster

import (
	"io"
	"os/exec"
	"syscall"
	"testing"
)

// A watchman is a process beside the test that ends what is left on the hosts when the
// test is killed, and so cannot do it: its standard input ends then. Its arguments are
// the namespaces. What forks while it is looked for is found in the next round; there
// are rounds for a minute at least, until one finds nobody.
const watchman = `read -r word
[ "$word" = over ] && exit
round=0
while [ "$round" -lt 600 ]; do
	found=
	for space; do
		for pid in $(ip netns pids "$space" 2>/dev/null); do
			found=yes
			kill -9 "$pid"
		done
	done
	[ "$found" ] || break
	sleep .1
	round=$((round + 1))
done
for space; do ip netns del "$space"; done`

// watched has a watchman until the returned function tells it that all is over.
func watched(t testing.TB, spaces []string) (over func()) {
	t.Helper()
	c := exec.Command("sh", append([]string{"-c", `PATH=$PATH:/usr/sbin:/sbin; ` + watchman, "psrt-watchman"}, spaces...)...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends the test is not to end it
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		_, _ = io.WriteString(in, "over\n") // it may have been killed
		_ = in.Close()
		_ = c.Wait()
	}
}
