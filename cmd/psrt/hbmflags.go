package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"psrt/cmd/internal/cli"
	"psrt/tiers/hbm/pick"
)

// hbmFlags say where rows of coming batches lie, nearer than memory.
type hbmFlags struct {
	budget cli.Bytes
	kinds  string
}

func (f *hbmFlags) register(fl *pflag.FlagSet) {
	fl.Var(&f.budget, "hbm-budget", "GPU memory of one server for rows of coming batches, on all its cards together; see --hbm-device")
	fl.StringVar(&f.kinds, "hbm-device", pick.GPU, "where --hbm-budget is taken, `gpu|host|so:FILE|N[,...]`: a GPU (without one, rows stay in the tiers below), its twin in the host's memory, to try what it does, an accelerator by the table of functions in a library of yours, or the GPU of a number; several, as 0,1,2,3, have the rows spread over them, lane by lane")
}

// device is what the flags say, nil where no rows are nearer than memory.
func (f *hbmFlags) device(c *cobra.Command, policy string) (*pick.Device, error) {
	switch {
	case f.budget == 0 && c.Flags().Changed("hbm-device"):
		return nil, cli.Usagef("--hbm-device has no effect without --hbm-budget: say how much of it rows may take")
	case f.budget == 0:
		return nil, nil
	}
	kinds := strings.Split(f.kinds, ",")
	for i, kind := range kinds {
		var err error
		if kinds[i], err = absolute(kind); err != nil {
			return nil, err
		}
	}
	return &pick.Device{Kind: strings.Join(kinds, ","), Bytes: int64(f.budget), Policy: policy}, nil
}

// absolute is a kind of device whose library, if it is one, is found from everywhere: ranks
// may be started elsewhere.
func absolute(kind string) (string, error) {
	file, ok := strings.CutPrefix(kind, pick.Library)
	if !ok || file == "" {
		return kind, nil
	}
	file, err := filepath.Abs(file)
	return pick.Library + file, err
}
