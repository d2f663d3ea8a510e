package probe

import (
	"syscall"
	"testing"
)

// segments gives off-heap segments, at most limit of them (0 = no limit).
func segments(t testing.TB, shift uint, limit int) func() ([]byte, error) {
	n := 0
	return func() ([]byte, error) {
		if n++; limit > 0 && n > limit {
			return nil, syscall.ENOMEM
		}
		m, err := syscall.Mmap(-1, 0, BucketBytes<<shift, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := syscall.Munmap(m); err != nil {
				t.Error(err)
			}
		})
		return m, nil
	}
}
