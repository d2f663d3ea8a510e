package main

import (
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
)

// transportFlags say how ranks reach each other.
type transportFlags struct {
	kind *cli.Choice
	cli.RDMA
}

func (f *transportFlags) add(fl *pflag.FlagSet) {
	f.kind = cli.NewChoice("auto", "auto", "verbs", "shm", "tcp", "quic")
	fl.Var(f.kind, "transport", "how ranks reach each other; auto: verbs if an RDMA device reaches the peer, else shm on one host, else tcp; says which and why. quic: for lossy or distant links")
	f.Add(fl)
}

// args gives the flags to a rank that this process starts.
func (f *transportFlags) args() []string {
	return append([]string{"--transport", f.kind.Value}, f.Args()...)
}
