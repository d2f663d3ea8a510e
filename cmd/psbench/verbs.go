package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	ibv "psrt/csrc/verbs"
	"psrt/rdma/verbs"
)

// verbsFlags choose the RDMA devices of a benchmark between two processes.
type verbsFlags struct {
	devices        string
	port, gidIndex int
	spinMicros     int
}

func (f *verbsFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.devices, "device", "", "RDMA `device` of this process and, after a comma, of the peer (the first two there are)")
	fl.IntVar(&f.port, "port", 0, "`port` of the RDMA devices (0: the first active one)")
	fl.IntVar(&f.gidIndex, "gid-index", -1, "`index` of the GID on both RDMA devices (-1: the pair that suits both)")
	fl.IntVar(&f.spinMicros, "spin", 0, "`microseconds` that a wait over verbs polls before it blocks (0: 20, as in training; perftest never blocks)")
}

// names are the two devices.
func (f *verbsFlags) names() (here, peer string, err error) {
	list := strings.FieldsFunc(f.devices, func(r rune) bool { return r == ',' || r == ' ' })
	if len(list) == 0 {
		if list, err = ibv.Devices(); err != nil {
			return "", "", err
		}
	}
	switch len(list) {
	case 0:
		return "", "", cli.Usagef("--transport verbs: %w; make lab CMD=\"...\" has two", verbs.ErrNoDevice)
	case 1:
		return list[0], list[0], nil
	}
	return list[0], list[1], nil
}

// transport is what openDomain takes for one of the devices.
func (f *verbsFlags) transport(device string) (string, error) {
	if f.gidIndex < -1 || f.gidIndex > 255 {
		return "", cli.Usagef("--gid-index %d: want 0 to 255, or -1 to have it found", f.gidIndex)
	}
	b, err := json.Marshal(verbs.Config{Device: device, Port: f.port, PinGID: f.gidIndex >= 0, GIDIndex: max(f.gidIndex, 0), SpinMicros: f.spinMicros})
	return fmt.Sprintf("verbs:%s", b), err
}
