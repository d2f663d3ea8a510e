package fan

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Hardware counters of RDMA devices: soft-RoCE's names, then those of mlx5.
var (
	rnrNames    = []string{"send_rnr_err", "rnr_nak_retry_err"}
	resentNames = []string{"completer_retry_err", "local_ack_timeout_err", "packet_seq_err"}
)

// tcpRetransmitted is how many segments the TCP of this namespace sent again.
func tcpRetransmitted(proc string) int64 {
	b, err := os.ReadFile(filepath.Join(proc, "net/snmp"))
	if err != nil {
		return -1
	}
	return parseSNMP(b, "Tcp:", "RetransSegs")
}

// parseSNMP finds a counter: a line of names, then one of values.
func parseSNMP(text []byte, section, name string) int64 {
	var names []string
	for line := range bytes.Lines(text) {
		f := strings.Fields(string(line))
		if len(f) == 0 || f[0] != section {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, n := range names {
			if n == name && i < len(f) {
				if v, err := strconv.ParseInt(f[i], 10, 64); err == nil {
					return v
				}
			}
		}
	}
	return -1
}

// hardware sums counters over ports of devices; -1 where there is none of them.
func hardware(sys string, devices, names []string) int64 {
	total := int64(-1)
	for i, d := range devices {
		if i > 0 && d == devices[0] {
			continue
		}
		for _, n := range names {
			files, _ := filepath.Glob(filepath.Join(sys, "class/infiniband", d, "ports/*/hw_counters", n))
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					continue
				}
				if v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
					total = max(total, 0) + v
				}
			}
		}
	}
	return total
}
