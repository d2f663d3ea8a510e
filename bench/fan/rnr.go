package fan

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rnr adds up all RDMA devices' counters of receiver-not-ready; 0 where there
// are none.
func rnr() uint64 {
	files, _ := filepath.Glob("/sys/class/infiniband/*/ports/*/hw_counters/*rnr*")
	sum := uint64(0)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
			sum += n
		}
	}
	return sum
}
