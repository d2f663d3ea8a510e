package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is where a report was measured.
type Machine struct {
	Kernel   string `json:"kernel"`
	CPU      string `json:"cpu"`
	CPUs     int    `json:"cpus"`
	Device   string `json:"device"`
	NUMANode int    `json:"numa_node"` // -1 unknown
	Go       string `json:"go"`
}

// ThisMachine asks the kernel; what it does not tell is "unknown".
func ThisMachine() Machine {
	m := Machine{Kernel: "unknown", CPU: "unknown", CPUs: runtime.NumCPU(), Device: "none", NUMANode: -1, Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	return m
}

// Load is the 1-minute load average, 0 where the kernel does not tell.
func Load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	fmt.Sscan(string(b), &load)
	return load
}
