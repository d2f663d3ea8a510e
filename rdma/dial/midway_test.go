package dial

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A dial ends as soon as it is to, and as soon as its listener has gone, also while it
// waits for an endpoint of a listener that never connects its own.
func TestDialEndsMidway(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		for name, end := range map[string]func(cancel func(), in *Incoming){
			"cancelled":     func(cancel func(), _ *Incoming) { cancel() },
			"listener gone": func(_ func(), in *Incoming) { _ = in.control.Close() },
		} {
			t.Run(transport+" "+name, func(t *testing.T) {
				for range 4 { // which of two ends of shared memory waits for the other is drawn
					ctx, cancel := context.WithCancel(within(t, time.Minute))
					ended := make(chan time.Time, 1)
					server := newHost(t, Config{Transport: transport, StepTimeout: 40 * time.Second})
					client := newHost(t, Config{Transport: transport, StepTimeout: 40 * time.Second})
					l, sl := listen(t, server, "127.0.0.1:0"), newLane(t)
					go func() {
						defer func() { ended <- time.Now() }()
						in, err := l.Accept(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						domains, err := server.onRails(transport, 1, nil)
						if err != nil {
							t.Error(err)
							return
						}
						eps, addresses, err := prepare(domains, sl.attach)
						if err != nil {
							t.Error(err)
							return
						}
						t.Cleanup(func() { _ = closeAll(eps) })
						var tried triedMsg
						if err = sendMsg(in.control, kindTry, tryMsg{Transport: transport, Addresses: addresses}, in.soon()); err == nil {
							_, err = readMsg(in.control, in.soon(), map[uint8]any{kindTried: &tried})
						}
						if err != nil || tried.Error != "" {
							t.Error(err, tried.Error)
						}
						time.Sleep(50 * time.Millisecond) // for it to begin to wait
						end(cancel, in)
					}()
					_, _, err := client.Dial(ctx, l.Addr(), nil, 1, newLane(t).attach)
					if took := time.Since(<-ended); took > 20*time.Second {
						t.Errorf("it ended %v later", took)
					}
					if err == nil || name == "cancelled" && !errors.Is(err, context.Canceled) {
						t.Errorf("%v", err)
					}
					cancel()
				}
			})
		}
	}
}
