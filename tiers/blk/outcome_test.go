package blk

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
	"psrt/tiers/uring"
)

// TestOutcome plays what kernels answer, once each, to a read of 4096 bytes.
func TestOutcome(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(uring.Feature))
	d, err := Open(t.TempDir(), Config{Engine: EngineRing, Block: 512})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	u := d.(*ringDevice)
	if _, err := u.Create("name", 8192); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what    string
		op      Op
		answers []int32
		done    int
		want    error
		at      string
	}{
		{"whole", Read, []int32{4096}, 4096, nil, ""},
		{"in two parts", Read, []int32{512, 3584}, 4096, nil, ""},
		{"in two parts", Write, []int32{3584, 512}, 4096, nil, ""},
		{"a signal", Write, []int32{-int32(unix.EINTR), 4096}, 4096, nil, ""},
		{"busy", Read, []int32{-int32(unix.EAGAIN), -int32(unix.EAGAIN), 4096}, 4096, nil, ""},
		{"the thread ended", Sync, []int32{-int32(unix.ECANCELED), 0}, 0, nil, ""},
		{"a dead disk", Read, []int32{-int32(unix.EIO)}, 0, ErrIO, "read"},
		{"dead after a part", Write, []int32{1024, -int32(unix.EIO)}, 1024, ErrIO, "write"},
		{"full", Write, []int32{-int32(unix.ENOSPC)}, 0, ErrNoSpace, "free some"},
		{"over quota", Write, []int32{-int32(unix.EDQUOT)}, 0, ErrNoSpace, "free some"},
		{"the file was cut off", Read, []int32{1024, 0}, 1024, ErrShort, "at byte 5120"},
		{"half a block", Write, []int32{100}, 100, ErrIO, "short transfer"},
		{"no punching of holes", Discard, []int32{-int32(unix.EOPNOTSUPP)}, 0, errors.ErrUnsupported, "discard"},
	} {
		s := &slot{Request: Request{Op: c.op, File: 0, Offset: 4096, Buf: make([]byte, 4096)}}
		for i, res := range c.answers {
			err = u.outcome(s, res)
			if last := i == len(c.answers)-1; !last && err != errAgain || last && err == errAgain {
				t.Errorf("%s: answer %d of %v: %v", c.what, i, c.answers, err)
			}
		}
		if c.want == nil && err != nil || !errors.Is(err, c.want) || s.done != c.done {
			t.Errorf("%s: %d bytes, %v; want %d, %v", c.what, s.done, err, c.done, c.want)
		}
		if err != nil && (!strings.Contains(err.Error(), c.at) || !strings.Contains(err.Error(), "/name")) {
			t.Errorf("%s: %q does not say %q and the file", c.what, err, c.at)
		}
	}
	s := &slot{Request: Request{Op: Read, Buf: make([]byte, 512)}}
	for tries := 1; ; tries++ {
		err := u.outcome(s, -int32(unix.EAGAIN))
		if err != errAgain {
			if tries != maxTries {
				t.Errorf("given up after %d tries with %v, want %d", tries, err, maxTries)
			}
			break
		}
	}
}
