package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"psrt/rdma/dial"
	"psrt/rdma/verbs"
)

// RDMA is the flags that choose RDMA devices, of every command whose ranks
// reach each other.
type RDMA struct {
	device       string
	port         int
	gidIndex     int
	trafficClass int
}

// Add defines them.
func (f *RDMA) Add(fl *pflag.FlagSet) {
	fl.StringVar(&f.device, "device", "", "RDMA `device` to use, or several by commas (all with an active port)")
	fl.IntVar(&f.port, "port", 0, "`port` of the RDMA device (0: its first active one)")
	fl.IntVar(&f.gidIndex, "gid-index", -1, "`index` of the RDMA port's GID to use (-1: the pair that suits both peers)")
	fl.IntVar(&f.trafficClass, "traffic-class", 0, "traffic class of RDMA packets: DSCP times 4, as the switches have it")
}

// Args gives them to a rank that this process starts.
func (f *RDMA) Args() []string {
	args := []string{"--port", strconv.Itoa(f.port), "--gid-index", strconv.Itoa(f.gidIndex), "--traffic-class", strconv.Itoa(f.trafficClass)}
	if f.device != "" {
		args = append(args, "--device", f.device)
	}
	return args
}

// Devices is the choice they make; a usage error where a value cannot be.
func (f *RDMA) Devices() (dial.Devices, error) {
	s := dial.Devices{Config: verbs.Config{Port: f.port, PinGID: f.gidIndex >= 0, GIDIndex: f.gidIndex, TrafficClass: uint8(f.trafficClass)}}
	for _, name := range strings.Split(f.device, ",") {
		if name = strings.TrimSpace(name); name != "" {
			s.Devices = append(s.Devices, name)
		}
	}
	switch {
	case f.gidIndex < -1 || f.gidIndex > 255:
		return s, Usagef("--gid-index %d: want 0 to 255, or -1 to have it found", f.gidIndex)
	case f.port < 0 || f.port > 255:
		return s, Usagef("--port %d: want 1 to 255, or 0 for the first active one", f.port)
	case f.trafficClass < 0 || f.trafficClass > 255:
		return s, Usagef("--traffic-class %d: want 0 to 255", f.trafficClass)
	}
	return s, nil
}
