package qualify

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"psrt/bench/report"
	ibv "psrt/csrc/verbs"
	"psrt/rdma/verbs/memlock"
)

// Facts are what a rank says of its machine.
type Facts struct {
	Host string
	// Key is equal for ranks of one host: the kernel's boot and the network
	// namespace.
	Key       string
	PID       int
	CPUs      int
	Kernel    string
	Interface string // that its connections come in on
	MTU       int
	Devices   []string // RDMA devices
	Warnings  []string
}

// localFacts are this process's. listen is where it listens, need the bytes
// that it will register.
func localFacts(listen string, need int) Facts {
	f := Facts{PID: os.Getpid(), CPUs: runtime.NumCPU(), Kernel: report.ThisMachine().Kernel}
	f.Host, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/net")
	f.Key = strings.TrimSpace(string(boot)) + " " + space
	f.Interface, f.MTU = interfaceOf(listen)
	f.Devices, _ = ibv.Devices()
	warn := func(format string, args ...any) { f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...)) }
	if len(f.Devices) > 0 {
		if err := memlock.Check(int64(need)); err != nil {
			warn("%v", err)
		}
	}
	if n := runtime.GOMAXPROCS(0); n < f.CPUs {
		warn("%d of %d CPUs may be used: a limit of the control group, or GOMAXPROCS", n, f.CPUs)
	}
	if load := report.Load(); load > float64(f.CPUs) {
		warn("load average %.1f on %d CPUs: something else is running", load, f.CPUs)
	}
	return f
}

// interfaceOf is the network interface that has the address.
func interfaceOf(listen string) (name string, mtu int) {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	if err != nil || ip == nil {
		return "", 0
	}
	all, err := net.Interfaces()
	if err != nil {
		return "", 0
	}
	for _, i := range all {
		addrs, _ := i.Addrs() // an interface that has just gone has none
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
				return i.Name, i.MTU
			}
		}
	}
	return "", 0
}
