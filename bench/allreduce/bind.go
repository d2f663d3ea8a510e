package allreduce

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// bind gives each of two ranks a core, as mpirun does by default: who sends over the
// loopback wakes its peer beside itself, and the kernel may leave both on one core for
// long. More ranks than two mpirun leaves to a whole socket, and so does this. Over shm
// nobody's arrival moves anybody, and to be bound only hurts where others want the core.
// Nil: nobody is bound.
func (c *Config) bind() [][]int {
	if c.Transport != "tcp" || c.Ranks != 2 || c.Collective == NCCL {
		return nil
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var mine []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			mine = append(mine, cpu)
		}
	}
	return twoCores(mine, siblings)
}

// siblings names the core of a CPU.
func siblings(cpu int) string {
	b, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
	return string(b)
}

// twoCores are the first CPUs of two cores; nil where there are none.
func twoCores(cpus []int, core func(cpu int) string) [][]int {
	for _, cpu := range cpus {
		if core(cpu) != core(cpus[0]) {
			return [][]int{{cpus[0]}, {cpu}}
		}
	}
	return nil
}
