package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"psrt/rdma/feature"
)

// TestThisMachine opens the lab on a machine with RDMA devices: inside the lab.
func TestThisMachine(t *testing.T) {
	if os.Getenv("PSRT_LAB") == "" {
		feature.SkipUnless(t, fmt.Errorf("not in the lab (make test runs it there): %w", feature.ErrNotSupported))
	}
	var log bytes.Buffer
	cfg := Defaults()
	cfg.Log, cfg.Grace = &log, 300*time.Millisecond
	cfg.Emulator = "/no/such/emulator"
	m := open(t, cfg)
	if !strings.Contains(log.String(), "this machine has ") || m.Name() == "" {
		t.Errorf("it says %q", log.String())
	}
	for line, want := range map[string]int{"exit 7": 7, "kill -TERM $$": 128 + 15, "true": 0} {
		var out, errs bytes.Buffer
		if code, err := m.Run(t.Context(), shell(line, &out, &errs)); code != want || err != nil {
			t.Errorf("%s: code %d, %v, want %d", line, code, err, want)
		}
	}
	var state bytes.Buffer
	showState(t.Context(), m, &state)
	wants := []string{"ACTIVE", "inet ", "lookup local", "local 127.0.0.1"}
	if m.Name() == simulated {
		wants = append(wants, ":RoCE v2")
	}
	for _, want := range wants {
		if !strings.Contains(state.String(), want) {
			t.Errorf("%q is not in the machine's state:\n%s", want, state.String())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	var out, errs bytes.Buffer
	if _, err := m.Run(ctx, shell("sleep 200", &out, &errs)); err == nil || time.Since(began) > patience {
		t.Errorf("a deadline of a second: %v after %v", err, time.Since(began))
	}
}
