//go:build cgo

package main

// #include "calls.h"
import "C"

import (
	"context"
	"os"
	"sync"
	"time"
	"unsafe"

	"psrt/sched/kv"
	"psrt/sched/kv/device"
)

// version is set when the library is linked.
var version = "dev"

// all is every handle of the process.
var all handles

// clientHandle is a client as C has it.
type clientHandle struct {
	c      *kv.Client
	gpus   *device.Staging
	mu     sync.Mutex
	tables map[*kv.Table]uint64
}

// tableHandle is a table as C has it.
type tableHandle struct {
	t   *kv.Table
	of  *clientHandle
	dim uint64
}

func noHandle(k kind, h address) error {
	return &kv.Error{Code: kv.NoHandle, Err: invalid("%#x is not the handle of %v, or it was closed", uint64(h), k)}
}

func clientOf(h address) (*clientHandle, error) {
	if c, ok := all.get(kindClient, uint64(h)).(*clientHandle); ok {
		return c, nil
	}
	return nil, noHandle(kindClient, h)
}

func tableOf(h address) (*tableHandle, error) {
	if t, ok := all.get(kindTable, uint64(h)).(*tableHandle); ok {
		return t, nil
	}
	return nil, noHandle(kindTable, h)
}

//export psrtgo_version
func psrtgo_version(buf *C.char, n C.size_t) {
	makeRoom()
	write(unsafe.Slice((*byte)(unsafe.Pointer(buf)), n), version)
}

//export psrtgo_noop
func psrtgo_noop(h address, e *C.psrt_text) C.int {
	makeRoom()
	if _, err := clientOf(h); err != nil {
		return fail(e, err)
	}
	return C.PSRT_OK
}

// Bounds of what C may pass as text, without its end.
const (
	maxConfig = 1 << 20
	maxName   = 1024
	maxPath   = 4096
)

//export psrtgo_open
func psrtgo_open(config, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	at, err := place[C.uint64_t](out, "client", true)
	if err != nil {
		return fail(e, err)
	}
	yaml, err := text(config, maxConfig, "config_yaml")
	if err != nil {
		return fail(e, err)
	}
	cfg, err := kv.ParseConfig([]byte(yaml))
	if err == nil {
		err = environment(&cfg, os.Getenv)
	}
	if err != nil {
		return fail(e, err)
	}
	sharing.Do(share)
	return waits(e, nil, true, func(ctx context.Context) (outcome, error) {
		c, err := kv.Open(ctx, cfg)
		if err != nil {
			return outcome{}, err
		}
		handle, err := all.put(kindClient, &clientHandle{c: c, gpus: device.New(c), tables: map[*kv.Table]uint64{}}, nil)
		if err != nil {
			c.Close()
			return outcome{}, &kv.Error{Code: kv.Busy, Err: err}
		}
		return outcome{take: func() error { *at = C.uint64_t(handle); return nil }, drop: func() {
			all.drop(handle)
			c.Close()
		}}, nil
	})
}

//export psrtgo_close
func psrtgo_close(h address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	c, err := clientOf(h)
	if err == nil && !all.drop(uint64(h)) {
		err = noHandle(kindClient, h) // another thread was first
	}
	if err != nil {
		return fail(e, err)
	}
	return does(e, nil, func() error {
		c.c.Close()
		all.dropOf(c)
		return nil
	})
}

//export psrtgo_stats
func psrtgo_stats(h, buf address, n C.size_t, needed address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	room, err := view[byte](buf, uint64(n), "buf")
	if err != nil {
		return fail(e, err)
	}
	size, err := place[C.size_t](needed, "needed", false)
	if err != nil {
		return fail(e, err)
	}
	return waits(e, c, false, func(context.Context) (outcome, error) {
		b, err := c.c.StatsJSON(0)
		return outcome{take: func() error {
			if size != nil {
				*size = C.size_t(len(b) + 1)
			}
			if len(room) < len(b)+1 {
				return tooSmall("buf has %d bytes, %d are needed", len(room), len(b)+1)
			}
			room[copy(room, b)] = 0
			return nil
		}}, err
	})
}

func tooSmall(format string, args ...any) error {
	return &kv.Error{Code: kv.TooSmall, Err: invalid(format, args...)}
}

//export psrtgo_table
func psrtgo_table(h, name, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.uint64_t](out, "table", true)
	if err != nil {
		return fail(e, err)
	}
	s, err := text(name, maxName, "name")
	if err != nil {
		return fail(e, err)
	}
	return waits(e, c, false, func(context.Context) (outcome, error) {
		t, err := c.c.Table(s)
		if err != nil {
			return outcome{}, err
		}
		handle, err := c.tableHandle(t)
		return outcome{take: func() error { *at = C.uint64_t(handle); return nil }}, err
	})
}

func (c *clientHandle) tableHandle(t *kv.Table) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.tables[t]; h != 0 {
		return h, nil
	}
	h, err := all.put(kindTable, &tableHandle{t, c, uint64(t.Spec().Dim)}, c)
	if err != nil {
		return 0, &kv.Error{Code: kv.Busy, Err: err}
	}
	c.tables[t] = h
	return h, nil
}

//export psrtgo_table_info
func psrtgo_table_info(h, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	t, err := tableOf(h)
	if err != nil {
		return fail(e, err)
	}
	size, err := place[C.uint32_t](out, "info", true)
	if err != nil {
		return fail(e, err)
	}
	if *size < 8 {
		return fail(e, invalid("info.size is %d; set it to sizeof(psrt_table_info)", uint32(*size)))
	}
	var info C.psrt_table_info
	n := min(uint64(*size), uint64(unsafe.Sizeof(info)))
	theirs, err := view[byte](out, n, "info")
	if err != nil {
		return fail(e, err)
	}
	spec := t.t.Spec()
	info.size, info.dim, info.id, info.row_bytes = *size, C.uint32_t(spec.Dim), C.uint32_t(spec.ID), C.uint32_t(t.t.RowBytes())
	write(unsafe.Slice((*byte)(unsafe.Pointer(&info.optimizer)), len(info.optimizer)), spec.Optimizer.WithDefaults().Kind)
	copy(theirs, unsafe.Slice((*byte)(unsafe.Pointer(&info)), n))
	return C.PSRT_OK
}

//export psrtgo_clock
func psrtgo_clock(h address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	e.refused = 0
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	return waits(e, c, false, func(context.Context) (outcome, error) {
		n, err := c.c.TickCounted(0)
		return outcome{refused: &n}, err
	})
}

//export psrtgo_clock_now
func psrtgo_clock_now(h, out address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	at, err := place[C.uint64_t](out, "step", true)
	if err != nil {
		return fail(e, err)
	}
	*at = C.uint64_t(c.c.Step())
	return C.PSRT_OK
}

//export psrtgo_barrier
func psrtgo_barrier(h address, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	return waits(e, c, true, func(ctx context.Context) (outcome, error) { return outcome{}, c.c.BarrierContext(ctx, 0) })
}

//export psrtgo_save
func psrtgo_save(h, dir, opt address, load C.int, e *C.psrt_text) (result C.int) {
	defer caught(e, &result)
	makeRoom()
	begin()
	c, err := clientOf(h)
	if err != nil {
		return fail(e, err)
	}
	o, err := options(opt)
	if err != nil {
		return fail(e, err)
	}
	s, err := text(dir, maxPath, "dir")
	if err != nil {
		return fail(e, err)
	}
	how := kv.SaveOptions{Timeout: micros(o.timeout_us), WeightsOnly: o.flags&C.PSRT_WEIGHTS_ONLY != 0}
	if load != 0 {
		return does(e, c, func() error { return c.c.Load(s, how) })
	}
	return does(e, c, func() error { return c.c.Save(s, how) })
}

func micros(n C.uint64_t) time.Duration { return time.Duration(n) * time.Microsecond }
