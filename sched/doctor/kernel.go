package doctor

import (
	"strconv"
	"strings"

	"psrt/tiers/uring"
)

// kernel is what its settings and this user's capabilities allow.
func (x *examiner) kernel() []Finding { return []Finding{x.ring(), x.bpf()} }

func (x *examiner) ring() Finding {
	f := Finding{Name: "io_uring", State: OK, Figure: "allowed by the kernel's setting"}
	if v := x.text("proc/sys/kernel/io_uring_disabled"); v != "" && v != "0" {
		f.State, f.Figure, f.Mend = Warn, "kernel.io_uring_disabled is "+v+": rows on disks are read by threads", "sysctl kernel.io_uring_disabled=0"
		return f
	}
	if !x.here() {
		return f
	}
	r, err := uring.New(uring.Config{Entries: 8})
	if err != nil {
		f.State, f.Figure, f.Mend = Warn, err.Error()+": rows on disks are read by threads", "in a container: a seccomp profile that allows io_uring"
		return f
	}
	f.Figure = "works"
	if why := r.Why(); why != "" {
		f.Figure += ", without " + why
	}
	_ = r.Close() // it was only tried
	return f
}

// Capabilities by number.
const (
	capNetAdmin = 12
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

func (x *examiner) bpf() Finding {
	f := Finding{Name: "eBPF", State: OK}
	if !x.exists("sys/kernel/btf/vmlinux") {
		f.State, f.Figure, f.Mend = Missing, "no /sys/kernel/btf/vmlinux; psrt counts by itself", "a kernel with CONFIG_DEBUG_INFO_BTF"
		return f
	}
	has, known := x.capabilities()
	may := func(n uint) bool { return has>>n&1 == 1 }
	var lack []string
	if !may(capSysAdmin) {
		for _, c := range []struct {
			n    uint
			name string
		}{{capBPF, "CAP_BPF"}, {capPerfmon, "CAP_PERFMON"}, {capNetAdmin, "CAP_NET_ADMIN"}} {
			if !may(c.n) {
				lack = append(lack, c.name)
			}
		}
	}
	switch {
	case !known:
		f.Figure = "the kernel's types are there (root or CAP_BPF is needed, too)"
	case len(lack) > 0:
		f.State, f.Figure = Warn, "this user lacks "+strings.Join(lack, ", ")+"; psrt counts by itself"
		f.Mend = "setcap cap_bpf,cap_perfmon,cap_net_admin+ep PSRT, or run as root"
	default:
		f.Figure = "the kernel's types are there, and this user may use it"
	}
	return f
}

// capabilities are the process's effective ones.
func (x *examiner) capabilities() (set uint64, known bool) {
	for line := range strings.Lines(x.text("proc/self/status")) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// words joins what is not empty.
func words(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, ", ")
}
