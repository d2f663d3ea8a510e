package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
	"psrt/rdma/verbs"
)

// transportFlags say how ranks reach each other.
type transportFlags struct {
	kind         *cli.Choice
	device       string
	port         int
	gidIndex     int
	trafficClass int
}

func (f *transportFlags) add(fl *pflag.FlagSet) {
	f.kind = cli.NewChoice("auto", "auto", "verbs", "shm", "tcp")
	fl.Var(f.kind, "transport", "how ranks reach each other; auto: verbs if an RDMA device reaches the peer, else shm on one host, else tcp; says which and why")
	fl.StringVar(&f.device, "device", "", "RDMA `device` to use, or several by commas (all with an active port)")
	fl.IntVar(&f.port, "port", 0, "`port` of the RDMA device (0: its first active one)")
	fl.IntVar(&f.gidIndex, "gid-index", -1, "`index` of the RDMA port's GID to use (-1: the pair that suits both peers)")
	fl.IntVar(&f.trafficClass, "traffic-class", 0, "traffic class of RDMA packets: DSCP times 4, as the switches have it")
}

// args gives the flags to a rank that this process starts.
func (f *transportFlags) args() []string {
	return []string{"--transport", f.kind.Value, "--device", f.device, "--port", strconv.Itoa(f.port),
		"--gid-index", strconv.Itoa(f.gidIndex), "--traffic-class", strconv.Itoa(f.trafficClass)}
}

// devices is the flags' choice of RDMA devices.
func (f *transportFlags) devices() (dial.Devices, error) {
	s := dial.Devices{Config: verbs.Config{Port: f.port, PinGID: f.gidIndex >= 0, GIDIndex: f.gidIndex, TrafficClass: uint8(f.trafficClass)}}
	for _, name := range strings.Split(f.device, ",") {
		if name = strings.TrimSpace(name); name != "" {
			s.Devices = append(s.Devices, name)
		}
	}
	switch {
	case f.gidIndex < -1 || f.gidIndex > 255:
		return s, cli.Usagef("--gid-index %d: want 0 to 255, or -1 to have it found", f.gidIndex)
	case f.port < 0 || f.port > 255:
		return s, cli.Usagef("--port %d: want 1 to 255, or 0 for the first active one", f.port)
	case f.trafficClass < 0 || f.trafficClass > 255:
		return s, cli.Usagef("--traffic-class %d: want 0 to 255", f.trafficClass)
	}
	return s, nil
}
