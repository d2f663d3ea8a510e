package memlock

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// becomeAnother asks for the right to become an unprivileged user with limits
// of its own.
var becomeAnother = feature.Test{
	Name:        "root",
	Requirement: "a test process that may become another user",
	Remedy:      "run the test as root",
	Lab:         "rxe",
	Probe: func(feature.Root) error {
		if uid := os.Geteuid(); uid != 0 {
			return &feature.MissingError{Detail: fmt.Sprintf("the user id is %d", uid)}
		}
		return nil
	},
}

// scriptEnv tells the process that it is the child and which script to run.
const scriptEnv = "PSRT_MEMLOCK_SCRIPT"

// TestUnprivileged runs each script as the user nobody with a hard limit of
// 8 MiB.
func TestUnprivileged(t *testing.T) {
	if name := os.Getenv(scriptEnv); name != "" {
		if err := scripts[name].run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	feature.SkipUnless(t, feature.NewProber("").Check(becomeAnother))
	for name := range scripts {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnprivileged$", "-test.v")
			cmd.Env = append(os.Environ(), scriptEnv+"="+name)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestUnprivileged") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

type script struct {
	soft, hard int64
	check      func() error
}

func (s script) run() error {
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: rlim(s.soft), Max: rlim(s.hard)}); err != nil {
		return err
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
		return err
	}
	return s.check()
}

var scripts = map[string]script{
	"beyond the limit": {8 * mib, 8 * mib, func() error {
		if err := Check(4 * mib); err != nil {
			return err
		}
		var limit *LimitError
		if err := Check(16 * mib); !errors.As(err, &limit) {
			return fmt.Errorf("16 MiB: got %v, want a LimitError", err)
		}
		if limit.Need != 16*mib || limit.Soft != 8*mib || limit.Hard != 8*mib {
			return fmt.Errorf("wrong figures: %+v", limit)
		}
		return nil
	}},
	"raises the soft limit": {mib, 8 * mib, func() error {
		if err := Check(mib); err != nil {
			return err
		}
		if f, err := Read(); err != nil || f.Soft != mib {
			return fmt.Errorf("soft limit %d changed without need, %v", f.Soft, err)
		}
		if err := Check(6 * mib); err != nil {
			return err
		}
		if f, err := Read(); err != nil || f.Soft != 8*mib {
			return fmt.Errorf("soft limit is %d after 6 MiB were needed, %v", f.Soft, err)
		}
		return nil
	}},
	"the answer is what mlock does": {2 * mib, 2 * mib, func() error {
		for _, size := range []int64{mib, 2 * mib, 3 * mib} {
			b, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return err
			}
			said, does := Check(size), unix.Mlock(b)
			if err := unix.Munmap(b); err != nil {
				return err
			}
			if (said == nil) != (does == nil) {
				return fmt.Errorf("%d bytes: Check %v, mlock %v", size, said, does)
			}
			if does != nil && Explain(does, size) == does {
				return fmt.Errorf("%d bytes: %v is not explained", size, does)
			}
		}
		return nil
	}},
}

// TestAboveTheLimit: a process with CAP_IPC_LOCK is not bound by the limit,
// and the trial of 64 GiB takes no memory.
func TestAboveTheLimit(t *testing.T) {
	feature.SkipUnless(t, feature.NewProber("").Check(feature.LockedMemory))
	before := resident(t)
	if err := Check(64 << 30); err != nil {
		t.Error(err)
	}
	if after := resident(t); after > before+64*mib {
		t.Errorf("resident memory grew from %d to %d bytes", before, after)
	}
}

func resident(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	n, err := field(string(status), "VmHWM")
	if err != nil {
		t.Fatal(err)
	}
	return n
}
