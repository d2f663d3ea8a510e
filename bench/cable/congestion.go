package cable

import (
	"fmt"
	"os"
	"strings"
)

const congestionName = "net/ipv4/tcp_congestion_control"

// Congestion is TCP's congestion control in this namespace.
func Congestion() string {
	b, _ := os.ReadFile("/proc/sys/" + congestionName)
	return strings.TrimSpace(string(b))
}

// SetCongestion has TCP in this namespace use a congestion control; "" leaves the
// system's.
func SetCongestion(control string) error {
	if control == "" {
		return nil
	}
	if err := Set(congestionName, control); err != nil {
		allowed, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
		return fmt.Errorf("%w; in a namespace there are %s (sysctl net.ipv4.tcp_allowed_congestion_control)", err, OneLine(string(allowed)))
	}
	return nil
}
