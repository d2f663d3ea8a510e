package memlock

import "fmt"

// LimitError says that RLIMIT_MEMLOCK forbids a registration.
type LimitError struct {
	Need           int64 // bytes of the registration
	Soft, Hard     int64 // bytes allowed to the process
	Pinned, Locked int64 // bytes already taken: by registrations, by mlock
	Raise          error // why the soft limit stayed below the hard one, or nil
	Trial          error // what the trial mlock said
	Cause          error // the registration's own refusal, or nil before one
}

// Remedy is what to write where; any one line suffices for its kind of start.
const Remedy = "allow it where the process is started, then start it anew: " +
	"shell or ssh: \"* - memlock unlimited\" in /etc/security/limits.conf; " +
	"systemd: LimitMEMLOCK=infinity in the unit; " +
	"docker: --ulimit memlock=-1; " +
	"slurm: PropagateResourceLimitsExcept=MEMLOCK in slurm.conf and LimitMEMLOCK=infinity for slurmd"

func (e *LimitError) Error() string {
	s := fmt.Sprintf("memlock: registering %s needs more locked memory than RLIMIT_MEMLOCK allows: needed %s, allowed %s (hard limit %s), already registered %s",
		text(e.Need), text(e.Need), text(e.Soft), text(e.Hard), text(e.Pinned))
	if e.Locked > 0 {
		s += fmt.Sprintf(", locked besides %s", text(e.Locked))
	}
	if e.Raise != nil {
		s += fmt.Sprintf("; raising the limit: %v", e.Raise)
	}
	if e.Trial != nil {
		s += fmt.Sprintf("; trying it: %v", e.Trial)
	}
	if e.Cause != nil {
		s += fmt.Sprintf("; the registration: %v", e.Cause)
	}
	return s + "; " + Remedy
}

func (e *LimitError) Unwrap() error { return e.Cause }

// NotLimitError says that a registration was refused although the limit would
// have let it through.
type NotLimitError struct {
	Need, Soft, Pinned int64 // bytes, as in LimitError
	Cause              error
}

func (e *NotLimitError) Error() string {
	return fmt.Sprintf("memlock: registering %s was refused: %v; RLIMIT_MEMLOCK is not the reason (allowed %s, already registered %s, or CAP_IPC_LOCK): "+
		"the host is short of memory or the device of regions; register fewer and larger regions, or less memory",
		text(e.Need), e.Cause, text(e.Soft), text(e.Pinned))
}

func (e *NotLimitError) Unwrap() error { return e.Cause }

// text gives bytes for a person and exactly.
func text(n int64) string {
	if n == Unlimited {
		return "unlimited"
	}
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.4g %s (%d bytes)", float64(n)/float64(u.size), u.name, n)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
