package probe

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is one that a meter needs. CAP_SYS_ADMIN stands for all.
type capability struct {
	number int
	name   string
}

var (
	capBPF      = capability{unix.CAP_BPF, "CAP_BPF"}
	capPerfmon  = capability{unix.CAP_PERFMON, "CAP_PERFMON"}
	capNetRaw   = capability{unix.CAP_NET_RAW, "CAP_NET_RAW"}
	capSysAdmin = capability{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}
)

// lacking are those of needed that the calling thread has not.
func lacking(needed []capability) []capability {
	if capable(unix.CAP_SYS_ADMIN) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(needed), func(c capability) bool { return capable(c.number) })
}

// lackingNames puts them into words.
func lackingNames(cs []capability) string {
	text := names(cs, " and ")
	if !slices.Contains(cs, capSysAdmin) {
		text += " (or CAP_SYS_ADMIN)"
	}
	return text
}

// capable says whether the calling thread has an effective capability.
func capable(number int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[number/32].Effective&(1<<(number%32)) != 0
}

func names(cs []capability, between string) string {
	all := make([]string, len(cs))
	for i, c := range cs {
		all[i] = c.name
	}
	return strings.Join(all, between)
}
