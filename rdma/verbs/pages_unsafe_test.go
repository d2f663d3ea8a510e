package verbs_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// nodesOf asks move_pages, which moves nothing here, for the NUMA node of each
// page of b; a negative one is an errno: -2 for a page that is not there.
func nodesOf(b []byte) ([]int32, error) {
	size := unix.Getpagesize()
	n := (len(b) + size - 1) / size
	pages, status := make([]unsafe.Pointer, n), make([]int32, n)
	for i := range pages {
		pages[i] = unsafe.Pointer(&b[i*size])
	}
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, uintptr(n), uintptr(unsafe.Pointer(&pages[0])), 0,
		uintptr(unsafe.Pointer(&status[0])), 0)
	if errno != 0 {
		return nil, errno
	}
	return status, nil
}
