package metrics

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Who does not answer is named, with its process where there is one, and with what that
// means.
func TestSilentRanksAreNamed(t *testing.T) {
	dir := t.TempDir()
	stopped, died := filepath.Join(dir, "stopped"), filepath.Join(dir, "died")
	for _, path := range []string{stopped, died} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		if path == died {
			_ = l.Close()
		}
		defer l.Close()
	}
	s := LookAt(t.Context(), []Place{{Name: "server 1", Addr: stopped}, {Name: "worker 0", Addr: died}, {Name: "worker 7 on h3 (pid 12)", Addr: filepath.Join(dir, "ended")}})
	st := Between(s, s)
	if st.Missing != 3 || len(st.Silent) != 3 {
		t.Fatalf("%+v", st)
	}
	for i, want := range []struct{ rank, why string }{
		{fmt.Sprintf("server 1 (pid %d)", os.Getpid()), "no answer within 1s"},
		{"worker 0", "has died or ended"},
		{"worker 7 on h3 (pid 12)", "has died or ended"},
	} {
		if got := st.Silent[i]; got.Rank != want.rank || !strings.Contains(got.Why, want.why) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
