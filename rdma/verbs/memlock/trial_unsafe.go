package memlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockOnFault is MLOCK_ONFAULT of mlock2: pages are locked when they are first
// touched. The limit is compared at once, with the whole size.
const lockOnFault = 1

// trial asks the kernel to lock that many bytes of reserved addresses; none is
// ever touched, so no page is taken.
func trial(bytes int64) error {
	const most = 1 << 46 // half of what an x86-64 process can address
	if bytes > most {
		return fmt.Errorf("%s are more than a process can address", text(bytes))
	}
	b, err := unix.Mmap(-1, 0, int(bytes), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("mmap of %s for a trial mlock: %w", text(bytes), err)
	}
	defer unix.Munmap(b)
	if _, _, errno := unix.Syscall(unix.SYS_MLOCK2, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), lockOnFault); errno != 0 {
		return fmt.Errorf("mlock of %s: %w", text(bytes), errno)
	}
	return nil
}
