package main

import (
	"fmt"
	"os"
	"time"

	"psrt/sched/kv"
)

// envStallAfter is a configuration's stall_after where that says nothing: for who runs
// a trainer and cannot change it.
const envStallAfter = "PSRT_STALL_AFTER"

// envAudit is likewise a configuration's audit.
const envAudit = "PSRT_AUDIT"

// envRead is likewise a configuration's read.
const envRead = "PSRT_READ"

// environment adds to a client's configuration what its process is told beside. A library does
// not write to its host's output unless somebody asks it to.
func environment(cfg *kv.Config, get func(string) string) error {
	if text := get(envStallAfter); text != "" && cfg.StallAfter == 0 {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return &kv.Error{Code: kv.BadConfig, Err: fmt.Errorf("%s is %q, want a time such as 10s, or 0: never", envStallAfter, text)}
		}
		cfg.StallAfter = kv.Duration(d)
	}
	if cfg.Audit == "" {
		cfg.Audit = get(envAudit)
	}
	if text := get(envRead); text != "" && cfg.Read == "" {
		if text != kv.ReadHead && text != kv.ReadAny {
			return &kv.Error{Code: kv.BadConfig, Err: fmt.Errorf("%s is %q, want %s or %s", envRead, text, kv.ReadHead, kv.ReadAny)}
		}
		cfg.Read = text
	}
	cfg.Say = func(line string) { fmt.Fprintln(os.Stderr, "psrt: "+line) }
	return nil
}
