package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"psrt/sched/coord"
	"psrt/sched/coord/local"
	"psrt/sched/coord/patient"
)

// mute answers nothing any more once it is told so, as an etcd of which too few live.
type mute struct {
	coord.Coordinator
	gone chan struct{}
}

func (m *mute) Revoke(ctx context.Context, lease coord.LeaseID) error {
	select {
	case <-m.gone:
		<-ctx.Done()
		return ctx.Err()
	default:
		return m.Coordinator.Revoke(ctx, lease)
	}
}

// Whoever keeps the coordinator may end before this rank's lease: that costs it no more
// than the courtesy, however long the lease is.
func TestLeaseOfAJobThatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		m := &mute{local.New(), make(chan struct{})}
		defer m.Close()
		c := untilOver(life, patient.New(m, nil))
		s, err := coord.NewSession(t.Context(), c, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		end()
		close(m.gone)
		began := time.Now()
		_ = s.Close() // nobody answers
		if took := time.Since(began); took > courtesy {
			t.Errorf("a rank that was over waited %v for an answer, want %v at most", took, courtesy)
		}
	})
}

// While a rank lives its calls have the time that they are given.
func TestCallsOfARankThatLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life, end := context.WithCancel(t.Context())
		defer end()
		m := &mute{local.New(), make(chan struct{})}
		defer m.Close()
		close(m.gone)
		c := untilOver(life, m)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := c.Revoke(ctx, 1); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
