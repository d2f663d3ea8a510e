package mem

import (
	"fmt"

	"golang.org/x/sys/unix"

	"psrt/rdma/feature"
)

// lock tries a real mlock: the limit alone does not tell, a process with
// CAP_IPC_LOCK is above it.
func lock(b []byte, info *Info) error {
	err := unix.Mlock(b)
	if err == nil {
		info.Locked, info.LockedWhy = true, "mlock"
		return nil
	}
	text := fmt.Sprintf("mlock of %s (%d bytes) refused: %v", bytesText(int64(len(b))), len(b), err)
	if limit, lerr := feature.MemlockLimit(); lerr == nil {
		text += fmt.Sprintf("; RLIMIT_MEMLOCK allows %s (%d bytes) for the whole process: ulimit -l unlimited, LimitMEMLOCK=infinity, or CAP_IPC_LOCK",
			bytesText(limit), limit)
	}
	info.LockedWhy = text
	return fmt.Errorf("mem: arena %q: %s", info.Purpose, text)
}
