package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// wanted is what a meter takes: for what, which capabilities, since when.
type wanted struct {
	what         string
	capabilities []capability
	kernel       string // the oldest, and what it brings
}

// diagnose turns the kernel's refusal into what lacks. The order matters: the
// kernel answers EPERM for more than privilege.
func (w wanted) diagnose(err error) error {
	missing := &MissingError{Needed: w.what, Cause: err}
	_, btf := os.Stat("/sys/kernel/btf/vmlinux")
	lacks := lacking(w.capabilities)
	switch {
	case errors.Is(btf, fs.ErrNotExist):
		missing.What, missing.Remedy = "CONFIG_DEBUG_INFO_BTF", "run a kernel that has /sys/kernel/btf/vmlinux"
	case len(lacks) > 0:
		missing.What = lackingNames(lacks)
		missing.Remedy = "run as root, or setcap " + strings.ToLower(names(w.capabilities, ",")) + "+ep on the program"
	case errors.Is(err, unix.ENOSYS):
		missing.What, missing.Remedy = "CONFIG_BPF_SYSCALL", "run a kernel with bpf()"
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP), errors.Is(err, fs.ErrNotExist):
		missing.What, missing.Remedy = "a newer kernel, or one with CONFIG_BPF_EVENTS and CONFIG_BPF_JIT", w.kernel
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		missing.What = "leave to use bpf(), which this process has by its capabilities and a security module or kernel lockdown refuses"
		missing.Remedy = "see /sys/kernel/security/lockdown and the container's seccomp profile"
	default:
		return fmt.Errorf("probe: %s: %w", w.what, err)
	}
	return missing
}
