package feature

import (
	"errors"
	"fmt"
	"io/fs"
)

// HugePageBytes is the huge page used throughout: 2 MiB, on every x86-64 and
// on arm64 with 4 KiB pages.
const HugePageBytes = 2 << 20

// FreeHugePages counts the free 2 MiB pages of a node, or of the machine for
// node -1. Pages reserved by mappings that have not touched them yet are not
// free; the kernel counts reservations for the whole machine only, so a
// node's figure is bounded by the machine's.
func (r Root) FreeHugePages(node int) (int64, error) {
	const size = "hugepages-2048kB"
	free, err := r.readInt("sys/kernel/mm/hugepages/" + size + "/free_hugepages")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	reserved, err := r.readInt("sys/kernel/mm/hugepages/" + size + "/resv_hugepages")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	free = max(free-reserved, 0)
	if node < 0 {
		return free, nil
	}
	onNode, err := r.readInt(fmt.Sprintf("sys/devices/system/node/node%d/hugepages/%s/free_hugepages", node, size))
	if errors.Is(err, fs.ErrNotExist) {
		return free, nil
	}
	return min(free, onNode), err
}

// THP gives the policies for transparent huge pages of anonymous memory
// ("always", "madvise", "never") and of shared memory ("always",
// "within_size", "advise", "never", "deny", "force"). A kernel without them
// says "never".
func (r Root) THP() (anonymous, shared string, err error) {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	anonymous, err = r.chosen(dir + "enabled")
	if errors.Is(err, fs.ErrNotExist) {
		return "never", "never", nil
	}
	if err != nil {
		return "", "", err
	}
	shared, err = r.chosen(dir + "shmem_enabled")
	if errors.Is(err, fs.ErrNotExist) {
		return anonymous, "never", nil
	}
	return anonymous, shared, err
}
