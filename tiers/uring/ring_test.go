package uring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"psrt/csrc/seedtest"
	"psrt/rdma/feature"
	"psrt/rdma/invariant"
	"psrt/rdma/mem"
)

func TestMain(m *testing.M) { os.Exit(invariant.Main(m)) }

const patience = 60 * time.Second

func needRing(t *testing.T) {
	t.Helper()
	feature.SkipUnless(t, feature.NewProber("").Check(Feature))
}

// kinds are the ways in which a ring can work on this kernel.
var kinds = map[string]Config{
	"best":   {Entries: 8, Files: 4, Buffers: 4},
	"locked": {Entries: 8, Files: 4, Buffers: 4, Locked: true},
	"plain":  {Entries: 8, Files: 4, Buffers: 4, Plain: true},
}

func eachKind(t *testing.T, run func(t *testing.T, r *Ring)) {
	needRing(t)
	for name, cfg := range kinds {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := errors.Join(r.Close(), r.Close()); err != nil {
					t.Error(err)
				}
			}()
			run(t, r)
		})
	}
}

// take waits for n completions.
func take(t *testing.T, r *Ring, n int) map[uint64]int32 {
	t.Helper()
	got := map[uint64]int32{}
	var out [3]Completion
	for end := time.Now().Add(patience); len(got) < n; {
		k := r.Poll(out[:])
		for _, c := range out[:k] {
			if _, twice := got[c.User]; twice {
				t.Fatalf("completion %d came twice", c.User)
			}
			got[c.User] = c.Res
		}
		if k == 0 {
			if err := r.Wait(end); err != nil {
				t.Fatalf("after %d of %d completions: %v", len(got), n, err)
			}
		}
	}
	if k := r.Poll(out[:]); k != 0 {
		t.Fatalf("%d completions more than requests", k)
	}
	return got
}

func arena(t *testing.T, size int) []byte {
	t.Helper()
	a, err := mem.New(mem.Config{Size: size, Node: -1, Purpose: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a.Bytes()
}

func TestLayout(t *testing.T) {
	for _, c := range sizes() {
		if c.got != c.want {
			t.Errorf("%s takes %d bytes, the kernel's takes %d", c.name, c.got, c.want)
		}
	}
}

func TestReadsAndWrites(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Ring) {
		rng := seedtest.Rand(t)
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		buf := arena(t, 64<<10)
		half := len(buf) / 2
		for i := range half {
			buf[i] = byte(rng.Uint32())
		}
		fd, flags := int32(f.Fd()), uint8(0)
		if r.Files() > 0 {
			if err := r.RegisterFile(2, int(f.Fd())); err != nil {
				t.Fatal(err)
			}
			fd, flags = 2, FixedFile
		}
		fixed := func(e Entry) Entry { return e.Unregistered() }
		if r.Buffers() > 0 {
			if err := r.RegisterBuffer(3, buf); err != nil {
				t.Fatal(err)
			}
			fixed = func(e Entry) Entry { return e }
		}
		const n = 4096
		for _, op := range []func(int32, uint8, uint16, uint64, uint32, int64, uint64) Entry{Write, Read} {
			left := rng.Perm(half / n)
			for len(left) > 0 {
				k := 0
				for ; k < len(left); k++ {
					at := left[k] * n
					from := at
					if op(0, 0, 0, 0, 0, 0, 0).Opcode == OpReadFixed {
						from += half
					}
					e := fixed(op(fd, flags, 3, mem.Address(buf[from:]), n, int64(at), uint64(at)))
					if !r.Push(&e) {
						break
					}
				}
				if k == 0 || r.Pushed() != k {
					t.Fatalf("pushed %d, counted %d", k, r.Pushed())
				}
				if err := r.Submit(); err != nil {
					t.Fatal(err)
				}
				for user, res := range take(t, r, k) {
					if res != n {
						t.Fatalf("request at %d: %d", user, res)
					}
				}
				left = left[k:]
			}
		}
		if !bytes.Equal(buf[:half], buf[half:]) {
			t.Error("bytes read are not those written")
		}
		e := Fsync(fd, flags, 1)
		r.Push(&e)
		e = Fallocate(fd, flags, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, n, 2)
		r.Push(&e)
		if got := take(t, r, 2); got[1] != 0 || got[2] != 0 {
			t.Errorf("fsync and fallocate: %v", got)
		}
		e = Fsync(99, 0, 3)
		r.Push(&e)
		if got := take(t, r, 1); got[3] != -int32(unix.EBADF) {
			t.Errorf("fsync of no file: %v", got)
		}
	})
}

func TestFullRing(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Ring) {
		e := Entry{Opcode: OpNop}
		for i := range 8 {
			e.User = uint64(i)
			if !r.Push(&e) {
				t.Fatalf("entry %d of 8 is refused", i)
			}
		}
		if r.Push(&e) {
			t.Fatal("entry 9 of 8 is taken")
		}
		if r.Ready() {
			t.Error("completions before Submit")
		}
		if err := r.Submit(); err != nil {
			t.Fatal(err)
		}
		take(t, r, 8)
		if err := r.Submit(); err != nil {
			t.Errorf("Submit of nothing: %v", err)
		}
	})
}

func TestWaitHasADeadline(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Ring) {
		for _, d := range []time.Duration{0, -time.Hour, time.Millisecond} {
			if err := r.Wait(time.Now().Add(d)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Wait for %v with nothing in flight: %v", d, err)
			}
		}
	})
}

// TestOldWait is Wait as on kernels without a time-out in io_uring_enter.
func TestOldWait(t *testing.T) {
	needRing(t)
	r, err := New(kinds["plain"])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.features &^= featExtArg
	if err := r.Wait(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	fds := pipe(t)
	buf := arena(t, 8)
	e := Read(int32(fds[0]), 0, 0, mem.Address(buf), 1, 0, 5).Unregistered()
	r.Push(&e)
	if err := r.Wait(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if _, err := unix.Write(fds[1], []byte{1}); err != nil {
		t.Fatal(err)
	}
	if got := take(t, r, 1); got[5] != 1 {
		t.Error(got)
	}
}

func pipe(t *testing.T) (fds [2]int) {
	t.Helper()
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds
}

func TestNotify(t *testing.T) {
	eachKind(t, func(t *testing.T, r *Ring) {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		err = r.Notify(fd)
		if r.mode.flags&setupDeferTaskrun != 0 {
			if err == nil {
				t.Error("a Locked ring notifies")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		fds := pipe(t)
		buf := arena(t, 8)
		e := Read(int32(fds[0]), 0, 0, mem.Address(buf), 1, 0, 5).Unregistered()
		r.Push(&e)
		if err := r.Submit(); err != nil {
			t.Fatal(err)
		}
		var count [8]byte
		if _, err := unix.Read(fd, count[:]); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("notified of nothing: %v", err)
		}
		if _, err := unix.Write(fds[1], []byte{1}); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds())); n != 1 && !errors.Is(err, unix.EINTR) {
			t.Fatalf("not notified: %v", err)
		}
		if got := take(t, r, 1); got[5] != 1 {
			t.Error(got)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, c := range []Config{{}, {Entries: -1}, {Entries: MaxEntries + 1}, {Entries: 1, Completions: -1}, {Entries: 1, Files: -1}, {Entries: 1, Buffers: 1 << 20}} {
		if r, err := New(c); err == nil {
			r.Close()
			t.Errorf("%+v is taken", c)
		}
	}
	needRing(t)
	r, err := New(kinds["best"])
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"file slot 4 of 4":     r.RegisterFile(4, 0),
		"file slot -1 of 4":    r.RegisterFile(-1, 0),
		"registering a file":   r.RegisterFile(0, 1<<20),
		"buffer slot 4 of 4":   r.RegisterBuffer(4, []byte{0}),
		"a buffer of 0 bytes":  r.RegisterBuffer(0, nil),
		"registering an event": r.Notify(-1),
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Submit": r.Submit(), "Wait": r.Wait(time.Now()), "RegisterFile": r.RegisterFile(0, 0),
		"RegisterBuffer": r.RegisterBuffer(0, []byte{0}), "Notify": r.Notify(0),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s of a closed ring: %v", name, err)
		}
	}
	if r.Push(&Entry{}) || r.Poll(make([]Completion, 1)) != 0 || r.Ready() {
		t.Error("a closed ring takes or gives")
	}
}

func TestWhyNot(t *testing.T) {
	root := t.TempDir()
	say := func(value string) {
		dir := filepath.Join(root, "proc/sys/kernel")
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "io_uring_disabled"), []byte(value+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		errno  unix.Errno
		sysctl string
		want   string
	}{
		{unix.EPERM, "2", "sysctl kernel.io_uring_disabled=0"},
		{unix.EPERM, "1", "kernel.io_uring_group"},
		{unix.EPERM, "0", "seccomp profile"},
		{unix.ENOSYS, "0", "Linux 5.6"},
		{unix.ENOMEM, "0", "LimitMEMLOCK"},
		{unix.EMFILE, "0", "ulimit -n"},
		{unix.EINVAL, "0", "Linux 5.6"},
		{unix.EIO, "0", "log"},
	} {
		say(c.sysctl)
		err := unavailable(c.errno, root)
		var u *UnavailableError
		if !errors.As(err, &u) || u.Errno != c.errno || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with sysctl %s: %v, want %q in it", c.errno, c.sysctl, err, c.want)
		}
	}
}

func TestOpcodes(t *testing.T) {
	needRing(t)
	r, err := New(kinds["best"])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, op := range []Opcode{OpNop, OpFsync, OpReadFixed, OpWriteFixed, OpFallocate, OpRead, OpWrite} {
		if !r.Supports(op) {
			t.Errorf("operation %d is not there", op)
		}
	}
	if r.Supports(255) {
		t.Error("operation 255 is there")
	}
}
