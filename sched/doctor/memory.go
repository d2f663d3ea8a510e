package doctor

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// memory is what can be locked, and the huge pages of each node.
func (x *examiner) memory() []Finding { return append([]Finding{x.memlock()}, x.hugePages()...) }

// memlock tries it: with CAP_IPC_LOCK the limit does not apply.
func (x *examiner) memlock() Finding {
	f := Finding{Name: feature.LockedMemory.Name, State: OK, Asked: x.cfg.Memory > 0}
	limit, err := feature.MemlockLimit()
	if err != nil {
		f.State, f.Figure = Warn, err.Error()
		return f
	}
	words := "no limit"
	if limit < math.MaxInt64 {
		words = fmt.Sprintf("RLIMIT_MEMLOCK is %s", size(limit))
	}
	err = feature.NewProber(x.root).Check(feature.LockedMemory)
	var no *feature.MissingError
	switch beyond := mayLock(limit); {
	case errors.As(err, &no):
		f.State, f.Figure, f.Mend = Missing, no.Detail+": registered memory is locked", feature.LockedMemory.Remedy
	case err != nil:
		f.State, f.Figure = Warn, err.Error()
	case x.cfg.Memory > machineMemory():
		f.State, f.Figure, f.Mend = Missing, fmt.Sprintf("the machine has %s of memory, %s are to be locked", size(machineMemory()), size(x.cfg.Memory)), "lock less (--mem-budget), or keep rows on disks (--ssd)"
	case beyond:
		f.Figure = words + ", and more than that can be locked"
	case x.cfg.Memory > 0 && limit < x.cfg.Memory:
		f.State, f.Figure, f.Mend = Missing, fmt.Sprintf("%s, %s are to be locked", words, size(x.cfg.Memory)), feature.LockedMemory.Remedy
	case limit < fair:
		f.State, f.Figure, f.Mend = Warn, words+": enough for small jobs", feature.LockedMemory.Remedy
	default:
		f.Figure = words
	}
	return f
}

// machineMemory is all that there is, MaxInt64 where nobody tells.
func machineMemory() int64 {
	var s unix.Sysinfo_t
	if unix.Sysinfo(&s) != nil {
		return math.MaxInt64
	}
	return int64(s.Totalram) * int64(s.Unit)
}

// fair is what a job of some size locks.
const fair = 4 << 30

// lockTried is what is locked beyond the limit to see whether it holds.
const lockTried = 1 << 20

// mayLock says whether the limit does not bind. Where it is larger than what a
// probe may take that cannot be tried, and does not matter.
func mayLock(limit int64) bool {
	if limit == math.MaxInt64 {
		return true
	}
	if limit > 64<<20 {
		return false
	}
	b, err := unix.Mmap(-1, 0, int(limit)+lockTried, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	err = unix.Mlock(b)
	_ = unix.Munmap(b) // which unlocks it
	return err == nil
}

// hugePages are those of each NUMA node.
func (x *examiner) hugePages() (all []Finding) {
	for _, dir := range x.glob("sys/devices/system/node/node*/hugepages/hugepages-2048kB") {
		node := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		f := Finding{Name: "huge pages of " + node, State: OK, Figure: fmt.Sprintf("%s of 2 MiB, %s free", text(filepath.Join(dir, "nr_hugepages")), text(filepath.Join(dir, "free_hugepages")))}
		if text(filepath.Join(dir, "free_hugepages")) == "0" {
			f.State = Warn
			f.Mend = fmt.Sprintf("echo 1024 > /sys/devices/system/node/%s/hugepages/hugepages-2048kB/nr_hugepages", node)
		}
		all = append(all, f)
	}
	return all
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
