package main

import (
	"strconv"

	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/rdma/dial"
)

// transportFlags say how ranks reach each other.
type transportFlags struct {
	kind  *cli.Choice
	plain bool
	cli.RDMA
}

func (f *transportFlags) add(fl *pflag.FlagSet) {
	f.kind = cli.NewChoice("auto", "auto", "verbs", "shm", "tcp", "quic")
	fl.Var(f.kind, "transport", "how ranks reach each other; auto: verbs if an RDMA device reaches the peer, else shm on one host, else tcp; says which and why. quic: for lossy or distant links")
	fl.BoolVar(&f.plain, "plaintext", false, "no TLS on what tcp carries between hosts, inside a network you trust; all ranks need it")
	f.Add(fl)
}

func (f *transportFlags) cover() dial.Cover {
	if f.plain {
		return dial.CoverNone
	}
	return dial.CoverFar
}

// args gives the flags to a rank that this process starts.
func (f *transportFlags) args() []string {
	return append([]string{"--transport", f.kind.Value, "--plaintext=" + strconv.FormatBool(f.plain)}, f.Args()...)
}
