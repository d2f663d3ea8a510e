package lab

import (
	"fmt"
	"strconv"
	"strings"

	"psrt/bench/lab/guest"
	"psrt/bench/lab/wire"
)

// Files of the emulator beyond the three standard ones.
const (
	portFD   = 3 // the stream to the agent
	initrdFD = 4 // the initial file system, in memory: nothing to remove later
)

// machine is what the emulator is told.
type machine struct {
	accel     string // "kvm" or "tcg"
	kernel    string
	cpus      int
	memoryMiB int
	numa      bool
	shares    []wire.Share
}

// commandLine tells the kernel. The console gets warnings and worse: it is the
// log that is judged, and it works to the end of a crash. An oops ends the
// machine rather than leave a command waiting for a dead thread. The watchdogs of
// processors, work queues and RCU wait longer than usual (120 s): the host may be
// busy. Then an emulated timer may also not tick within the loop by which the
// kernel checks that it does, and panics if it does not.
func (m machine) commandLine() string {
	words := []string{"console=ttyS0", "loglevel=5", "panic=-1", "oops=panic", "watchdog_thresh=60",
		"workqueue.watchdog_thresh=120", "rcupdate.rcu_cpu_stall_timeout=120", "mitigations=off", "rdinit=/init"}
	if m.accel == "tcg" {
		words = append(words, "tsc=reliable", "no_timer_check")
		// The kernel measures the counter against emulated timers. On a busy host
		// it was off by a factor of 16 once: every timeout in the machine was over
		// in a sixteenth of its time.
		if khz := tscKHz(); khz > 0 {
			words = append(words, fmt.Sprintf("tsc_early_khz=%d", khz))
		}
	}
	return strings.Join(append(words, "--", guest.AgentCommand), " ")
}

func (m machine) args() []string {
	args := []string{
		"-nodefaults", "-display", "none", "-no-reboot", "-no-user-config",
		"-M", "q35", "-smp", m.topology(), "-m", fmt.Sprintf("%dM", m.memoryMiB),
		"-kernel", m.kernel, "-initrd", fmt.Sprintf("/proc/self/fd/%d", initrdFD), "-append", m.commandLine(),
		"-serial", "stdio",
		"-chardev", fmt.Sprintf("socket,id=lab,fd=%d", portFD), "-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=lab,name=" + guest.PortName,
		"-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=root,mount_tag=" + guest.RootTag,
	}
	if m.accel == "kvm" {
		args = append(args, "-accel", "kvm", "-cpu", "host")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-cpu", "max")
	}
	for _, s := range m.shares {
		args = append(args,
			"-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap", s.Tag, escape(s.Path)),
			"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%s", s.Tag, s.Tag))
	}
	if m.numa {
		args = append(args, m.numaArgs()...)
	}
	return args
}

// topology gives each NUMA node a socket: a kernel warns of a socket in two nodes.
func (m machine) topology() string {
	if m.numa {
		return fmt.Sprintf("%d,sockets=2,cores=%d,threads=1", m.cpus, m.cpus/2)
	}
	return strconv.Itoa(m.cpus)
}

// numaArgs halves memory and processors between two nodes.
func (m machine) numaArgs() []string {
	var args []string
	firstMiB := m.memoryMiB / 2
	for node, mib := range []int{firstMiB, m.memoryMiB - firstMiB} {
		first, last := node*m.cpus/2, (node+1)*m.cpus/2-1
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=memory%d,size=%dM", node, mib),
			"-numa", fmt.Sprintf("node,nodeid=%d,cpus=%d-%d,memdev=memory%d", node, first, last, node))
	}
	return args
}

// escape guards a value in the emulator's lists, in which a comma separates.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }
