package job

import (
	"slices"
	"testing"
	"time"

	"psrt/sched/replica"
)

// Servers that were killed stay registered until their leases end: they are no run that
// goes on.
func TestServersThatWereKilledDoNotGoOn(t *testing.T) {
	l, _ := chainedLauncher(t, 2, []uint64{11, 12}, []uint64{11, 12})
	if running, err := outlasting(t.Context(), l.store, 0); err != nil || !slices.Equal(running, []int{0, 1}) {
		t.Fatalf("servers %v go on, %v", running, err)
	}
	ended := make(chan error, 1)
	go func() {
		for i := range 2 {
			if _, err := l.store.Delete(t.Context(), replica.ServerKey(i)); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	running, err := outlasting(t.Context(), l.store, time.Minute)
	if err != nil || len(running) > 0 {
		t.Errorf("servers %v go on, %v", running, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	l, _ = chainedLauncher(t, 2, []uint64{11, 12}, []uint64{21, 22}) // other processes than the map's
	if running, err := outlasting(t.Context(), l.store, time.Minute); err != nil || len(running) > 0 {
		t.Errorf("servers %v go on, %v", running, err)
	}
}
