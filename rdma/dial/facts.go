package dial

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// facts say where a process runs: enough to know whether memory can be shared
// with it.
type facts struct {
	Hostname string `json:"hostname"` // for people; may be wrong or equal
	Boot     string `json:"boot"`     // the kernel's boot id: same means same kernel
	UID      int    `json:"uid"`
	PID      int    `json:"pid"`
	// Namespaces of the process, as the kernel names them; "" unknown. Mount
	// and net: where unix sockets are found; pid and user: what credentials on
	// them mean.
	Namespaces map[string]string `json:"namespaces"`
}

var sharedNamespaces = []string{"mnt", "net", "pid", "user"}

func localFacts() facts {
	f := facts{UID: os.Getuid(), PID: os.Getpid(), Namespaces: map[string]string{}}
	f.Hostname, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		f.Boot = strings.TrimSpace(string(b))
	}
	for _, name := range sharedNamespaces {
		f.Namespaces[name], _ = os.Readlink("/proc/thread-self/ns/" + name)
	}
	return f
}

// apart says why two processes cannot share memory, "" when they can. What is
// not known counts as different.
func apart(here, peer facts) string {
	if here.Boot == "" || here.Boot != peer.Boot {
		return "the peer is on another host (boot id differs)"
	}
	if here.UID != peer.UID {
		return fmt.Sprintf("the peer runs as uid %d, this process as uid %d", peer.UID, here.UID)
	}
	for _, name := range sharedNamespaces {
		if here.Namespaces[name] == "" || here.Namespaces[name] != peer.Namespaces[name] {
			return fmt.Sprintf("the peer is in another %s namespace (container)", name)
		}
	}
	return ""
}

// Machine is the same in two processes only if they can share memory as far as the
// kernel tells; "" where it does not.
func Machine() string {
	f := localFacts()
	name := []string{f.Boot, strconv.Itoa(f.UID)}
	for _, n := range sharedNamespaces {
		name = append(name, f.Namespaces[n])
	}
	if slices.Contains(name, "") {
		return ""
	}
	return strings.Join(name, " ")
}
