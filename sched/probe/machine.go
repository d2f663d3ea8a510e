package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// past is a deadline that lets a read take what is there and wait for nothing.
var past = time.Unix(1, 0)

// networkInode names the network namespace of the calling thread as the kernel
// does.
func networkInode() (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("probe: which network namespace this is: %w", err)
	}
	return uint32(st.Ino), nil
}

// interfaces names the interface a connection comes in by: the kernel's word,
// else the one that has the local address.
func interfaces() func(connection) string {
	names := map[uint32]string{}
	addresses := map[netip.Addr]string{}
	all, err := net.Interfaces()
	if err != nil {
		all = nil // then indexes are shown
	}
	for _, i := range all {
		names[uint32(i.Index)] = i.Name
		list, _ := i.Addrs() // one without addresses has no connections
		for _, a := range list {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				addresses[prefix.Addr()] = i.Name
			}
		}
	}
	return func(c connection) string {
		if c.interfaceIndex == 0 {
			return addresses[c.local]
		}
		if _, known := names[c.interfaceIndex]; !known { // it has come since
			names[c.interfaceIndex] = fmt.Sprintf("#%d", c.interfaceIndex)
			if i, err := net.InterfaceByIndex(int(c.interfaceIndex)); err == nil {
				names[c.interfaceIndex] = i.Name
			}
		}
		return names[c.interfaceIndex]
	}
}

// diagnose turns the kernel's refusal into what lacks. The order matters: the
// kernel answers EPERM for more than privilege.
func diagnose(what string, err error) error {
	missing := &MissingError{Needed: what, Cause: err}
	_, btf := os.Stat("/sys/kernel/btf/vmlinux")
	switch {
	case errors.Is(btf, fs.ErrNotExist):
		missing.What, missing.Remedy = "CONFIG_DEBUG_INFO_BTF", "run a kernel that has /sys/kernel/btf/vmlinux"
	case !capable(unix.CAP_SYS_ADMIN) && !(capable(unix.CAP_BPF) && capable(unix.CAP_PERFMON) && capable(unix.CAP_NET_ADMIN)):
		missing.What = "CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (or CAP_SYS_ADMIN)"
		missing.Remedy = "run as root, or setcap cap_bpf,cap_perfmon,cap_net_admin+ep on the program"
	case errors.Is(err, unix.ENOSYS):
		missing.What, missing.Remedy = "CONFIG_BPF_SYSCALL", "run a kernel with bpf()"
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOTSUP), errors.Is(err, fs.ErrNotExist):
		missing.What, missing.Remedy = "a newer kernel, or one with CONFIG_BPF_EVENTS and CONFIG_BPF_JIT", "Linux 5.12 and newer have what it takes: iter/tcp, tp_btf, a socket's cookie"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		missing.What = "leave to use bpf(), which this process has by its capabilities and a security module or kernel lockdown refuses"
		missing.Remedy = "see /sys/kernel/security/lockdown and the container's seccomp profile"
	default:
		return fmt.Errorf("probe: %s: %w", what, err)
	}
	return missing
}

// capable says whether the process has an effective capability.
func capable(number int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[number/32].Effective&(1<<(number%32)) != 0
}

// Cost is what programs have taken in the kernel.
type Cost struct {
	Runs  uint64
	Nanos uint64
}

// Stats makes the kernel measure every program's time until it is closed; the
// measuring itself costs some 30 ns a run. Without it every Cost is zero.
func Stats() (interface{ Close() error }, error) {
	c, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, diagnose("measuring the cost of metering", err)
	}
	return c, nil
}

func cost(programs []*ebpf.Program) (Cost, error) {
	var sum Cost
	for _, p := range programs {
		s, err := p.Stats()
		if err != nil {
			return Cost{}, fmt.Errorf("probe: reading a program's cost: %w", err)
		}
		sum.Runs += s.RunCount
		sum.Nanos += uint64(s.Runtime)
	}
	return sum, nil
}

func release(programs []*ebpf.Program, maps []*ebpf.Map) error {
	var errs []error
	for _, p := range programs {
		errs = append(errs, p.Close())
	}
	for _, m := range maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
