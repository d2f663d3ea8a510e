package memlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const mib = int64(1 << 20)

func refuse(int64) error { return unix.ENOMEM }
func allow(int64) error  { return nil }

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    Facts
		need int64
		ok   bool
	}{
		{"nothing needed", Facts{Soft: 0, Trial: refuse}, 0, true},
		{"below the limit", Facts{Soft: 8 * mib, Trial: refuse}, 4 * mib, true},
		{"exactly the limit", Facts{Soft: 8 * mib, Trial: refuse}, 8 * mib, true},
		{"one byte more", Facts{Soft: 8 * mib, Trial: refuse}, 8*mib + 1, false},
		{"pinned before", Facts{Soft: 8 * mib, Pinned: 6 * mib, Trial: refuse}, 4 * mib, false},
		{"mlocked before does not count", Facts{Soft: 8 * mib, Locked: 8 * mib, Trial: refuse}, 8 * mib, true},
		{"above the limit with CAP_IPC_LOCK", Facts{Soft: 8 * mib, Trial: allow}, 1 << 40, true},
		{"failed setrlimit with CAP_IPC_LOCK", Facts{Soft: 8 * mib, Hard: 16 * mib, Raise: unix.EPERM, Trial: allow}, 32 * mib, true},
		{"unlimited", Facts{Soft: Unlimited, Pinned: 1 << 50, Trial: refuse}, 1 << 60, true},
		{"limit 0", Facts{Soft: 0, Trial: refuse}, 1, false},
		{"a sum beyond 64 bits", Facts{Soft: 8 * mib, Pinned: 6 * mib, Trial: refuse}, Unlimited - 1, false},
	} {
		err := Judge(tc.f, tc.need)
		var limit *LimitError
		if (err == nil) != tc.ok || err != nil && !errors.As(err, &limit) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestTrialIsOfTheWholeSum(t *testing.T) {
	var asked []int64
	f := Facts{Soft: 8 * mib, Pinned: 3 * mib, Trial: func(n int64) error { asked = append(asked, n); return nil }}
	for _, need := range []int64{mib, 6 * mib} {
		if err := Judge(f, need); err != nil {
			t.Error(err)
		}
	}
	if len(asked) != 1 || asked[0] != 9*mib {
		t.Errorf("tried %v, want 9 MiB once: the first need fits", asked)
	}
}

func TestLimitErrorTellsAll(t *testing.T) {
	err := Judge(Facts{Soft: 8 * mib, Hard: 9 * mib, Pinned: mib, Locked: 2 * mib, Raise: unix.EPERM, Trial: refuse}, 16*mib)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"needed 16 MiB (16777216 bytes)", "allowed 8 MiB (8388608 bytes)", "hard limit 9 MiB", "already registered 1 MiB",
		"locked besides 2 MiB", "operation not permitted", "* - memlock unlimited", "LimitMEMLOCK=infinity", "--ulimit memlock=-1",
		"PropagateResourceLimitsExcept=MEMLOCK"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q: %v", want, err)
		}
	}
}

func TestExplain(t *testing.T) {
	reg := fmt.Errorf("verbs: register: %w", unix.ENOMEM)
	var limit *LimitError
	err := explain(Facts{Soft: 8 * mib, Trial: refuse}, reg, 16*mib)
	if !errors.As(err, &limit) || limit.Need != 16*mib || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("beyond the limit: %v", err)
	}
	var other *NotLimitError
	err = explain(Facts{Soft: Unlimited, Trial: refuse}, reg, 16*mib)
	if !errors.As(err, &other) || !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "not the reason") {
		t.Errorf("no limit: %v", err)
	}
	fault := fmt.Errorf("verbs: register: %w", unix.EFAULT)
	if err := Explain(fault, mib); err != fault {
		t.Errorf("EFAULT became %v", err)
	}
	if err := Explain(nil, mib); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestField(t *testing.T) {
	const status = "Name:\tx\nVmLck:\t      12 kB\nVmPin:\t 0 kB\nVmBad:\t x kB\nVmNeg:\t-1 kB\nVmBig:\t9223372036854775807 kB\n"
	for _, tc := range []struct {
		name string
		want int64
		ok   bool
	}{{"VmLck", 12 << 10, true}, {"VmPin", 0, true}, {"VmNone", 0, true}, {"VmBad", 0, false}, {"VmNeg", 0, false}, {"VmBig", 0, false}} {
		n, err := field(status, tc.name)
		if n != tc.want || (err == nil) != tc.ok {
			t.Errorf("%s: %d, %v", tc.name, n, err)
		}
	}
}
