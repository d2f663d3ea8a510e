//go:build cgo

package main

import (
	"testing"

	"psrt/sched/kv/kvtest"
)

// Every kind of push tells C how many rows the servers refused.
func TestRefusedRows(t *testing.T) {
	asp := servers(t, "shm", 1)
	bsp := kvtest.New(t, kvtest.Shape{Transport: "shm", Servers: 1, Lanes: 2, Workers: 1, Dense: 50})
	if said := run(t, program(t, "refused"), config(t, asp, "shm", 0), config(t, bsp, "shm", 0)); said != "" {
		t.Errorf("output: %s", said)
	}
}
