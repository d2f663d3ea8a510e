package blk_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/tiers/blk"
)

// cramped reads into a buffer that is larger than the memory that may be
// locked, beside one that is not.
func cramped(dir string) error {
	runtime.LockOSThread() // capabilities are a thread's
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err
	}
	limit.Cur = min(limit.Max, 4<<20)
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err
	}
	d, err := blk.Open(dir, blk.Config{})
	if err != nil {
		return err
	}
	if _, err := d.Buffers(0); !errors.Is(err, blk.ErrRequest) {
		return fmt.Errorf("a buffer of 0 bytes: %v", err)
	}
	f, err := d.Create("a", 8192)
	if err != nil {
		return err
	}
	for i, size := range []int{8192, 16 << 20, 8192} {
		b, err := d.Buffers(size)
		if err != nil {
			return err
		}
		b = b[size-4096:]
		for _, op := range []blk.Op{blk.Write, blk.Read} {
			b[0] = 0
			if op == blk.Write {
				b[0] = byte(i + 1)
			}
			if _, err := d.Submit([]blk.Request{{Op: op, File: f, Buf: b}}); err != nil {
				return err
			}
			var out [1]blk.Result
			for d.Poll(out[:]) == 0 {
				if err := d.Wait(time.Now().Add(time.Minute)); err != nil {
					return err
				}
			}
			if out[0].Err != nil || out[0].N != 4096 {
				return fmt.Errorf("%v with buffer %d: %d bytes, %w", op, i, out[0].N, out[0].Err)
			}
			if b[0] != byte(i+1) {
				return fmt.Errorf("%v with buffer %d: the byte is %d", op, i, b[0])
			}
		}
	}
	fmt.Println(d)
	return d.Close()
}

func TestUnregisteredBuffers(t *testing.T) {
	out, err := command(t, "cramped", t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	// Where this user's other processes have locked all there is, or io_uring is
	// forbidden, there is no ring at all.
	if s := string(out); !strings.Contains(s, "not all buffers are registered") && !strings.Contains(s, "io_uring is not available") {
		t.Errorf("the device says nothing of it: %s", s)
	}
	t.Logf("%s", out)
}
