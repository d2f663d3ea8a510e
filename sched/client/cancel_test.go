package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"psrt/tiers/table"
)

// promptly bounds how long a wait may go on after its client's context ended.
// An idle client looks about itself once a second: that is not prompt.
// Nor is a machine whose cores others have, so it is tried again.
const (
	promptly = 500 * time.Millisecond
	tries    = 10
)

// TestCancelEndsWaits: the end of a client's context ends whatever it waits
// for, with the context's cause.
func TestCancelEndsWaits(t *testing.T) {
	cause := errors.New("the user has had enough")
	cases := []struct {
		name string
		wait func(t *testing.T, w *world, c *Client, r *Rows, cancel func()) error
	}{
		{"pull that the clocks hold back", func(t *testing.T, w *world, c *Client, r *Rows, cancel func()) error {
			var call Call
			must(t, c.Pull(r, 5, 0, &call)) // the other worker never comes
			time.AfterFunc(50*time.Millisecond, cancel)
			return c.Wait(&call)
		}},
		{"slot", func(t *testing.T, w *world, c *Client, r *Rows, cancel func()) error {
			time.AfterFunc(50*time.Millisecond, cancel)
			calls := make([]Call, 100)
			for i := range calls {
				if err := c.Pull(r, 5, 0, &calls[i]); err != nil {
					return err
				}
			}
			return nil
		}},
		{"server that is gone", func(t *testing.T, w *world, c *Client, r *Rows, cancel func()) error {
			w.stop()
			time.AfterFunc(50*time.Millisecond, cancel)
			var call Call
			if err := c.Pull(r, 0, 0, &call); err != nil {
				return err
			}
			return c.Wait(&call)
		}},
	}
	each(t, func(t *testing.T, tr string) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				spec := sumTable(1, 2)
				late := make([]time.Duration, 0, tries)
				for len(late) < tries {
					w := newWorld(t, worldConfig{transport: tr, servers: 1, lanes: 2, workers: 2, staleness: 0, tables: []table.Spec{spec}})
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					c := w.openFor(ctx, 0)
					r := w.rows(c, spec)
					plan(t, r, []uint64{1, 2, 3, 4, 5, 6, 7, 8})
					pull(t, c, r, 0, 0)
					var cancelled time.Time
					err := tc.wait(t, w, c, r, func() { cancelled = time.Now(); cancel(cause) })
					if !errors.Is(err, cause) {
						t.Fatalf("the wait ended with %v, want the context's cause", err)
					}
					d := time.Since(cancelled)
					if d <= promptly {
						return
					}
					late = append(late, d)
				}
				t.Errorf("the waits ended %v after the context", late)
			})
		}
	})
}
