package tcp

import (
	"syscall"
	"unsafe"
)

func iovec(b []byte) syscall.Iovec {
	v := syscall.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

// slice is what v stands for.
func slice(v *syscall.Iovec) []byte { return unsafe.Slice(v.Base, v.Len) }

// skip drops the first n bytes of v.
func skip(v *syscall.Iovec, n int) {
	v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
	v.Len -= uint64(n)
}

func readv(fd uintptr, iov []syscall.Iovec) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
	return int(n), errno
}

func writev(fd uintptr, iov []syscall.Iovec) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(iov))), uintptr(len(iov)))
	return int(n), errno
}
