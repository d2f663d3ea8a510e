package probe

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// past is a deadline that lets a read take what is there and wait for nothing.
var past = time.Unix(1, 0)

// networkInode names the network namespace of the calling thread as the kernel
// does.
func networkInode() (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, fmt.Errorf("probe: which network namespace this is: %w", err)
	}
	return uint32(st.Ino), nil
}

// Cost is what programs have taken in the kernel.
type Cost struct {
	Runs  uint64
	Nanos uint64
}

// Stats makes the kernel measure every program's time until it is closed; the
// measuring itself costs some 30 ns a run. Without it every Cost is zero.
func Stats() (interface{ Close() error }, error) {
	c, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		return nil, wanted{"measuring the cost of metering", []capability{capSysAdmin}, "Linux 5.8 and newer have it"}.diagnose(err)
	}
	return c, nil
}

func cost(programs []*ebpf.Program) (Cost, error) {
	var sum Cost
	for _, p := range programs {
		s, err := p.Stats()
		if err != nil {
			return Cost{}, fmt.Errorf("probe: reading a program's cost: %w", err)
		}
		sum.Runs += s.RunCount
		sum.Nanos += uint64(s.Runtime)
	}
	return sum, nil
}

func release(programs []*ebpf.Program, maps []*ebpf.Map) error {
	var errs []error
	for _, p := range programs {
		errs = append(errs, p.Close())
	}
	for _, m := range maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
