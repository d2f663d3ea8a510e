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
	budget  cli.Bytes
	journal cli.Bytes
	kinds   string
}

func (f *hbmFlags) register(fl *pflag.FlagSet) {
	fl.Var(&f.budget, "hbm-budget", "GPU memory of one server for rows of coming batches, on all its cards together; see --hbm-device")
	fl.Var(&f.journal, "hbm-journal", "host memory of one server, beside --mem-budget, in which what is done to rows on its cards is written down until memory has them, so that a card that fails loses none and training goes on without it; 0: none; not given: an eighth of --hbm-budget, 1MiB at least and 256MiB at most")
	fl.StringVar(&f.kinds, "hbm-device", pick.GPU, "where --hbm-budget is taken, `gpu|host|so:FILE|N[,...]`: a GPU (without one, rows stay in the tiers below), its twin in the host's memory, to try what it does, an accelerator by the table of functions in a library of yours, or the GPU of a number; several, as 0,1,2,3, have the rows spread over them, lane by lane")
}

// device is what the flags say, nil where no rows are nearer than memory.
func (f *hbmFlags) device(c *cobra.Command, policy string) (*pick.Device, error) {
	switch {
	case f.budget == 0 && c.Flags().Changed("hbm-device"):
		return nil, cli.Usagef("--hbm-device has no effect without --hbm-budget: say how much of it rows may take")
	case f.budget == 0 && c.Flags().Changed("hbm-journal"):
		return nil, cli.Usagef("--hbm-journal has no effect without --hbm-budget: say how much of a GPU's memory rows may take")
	case f.budget == 0:
		return nil, nil
	}
	if !c.Flags().Changed("hbm-journal") {
		f.journal = min(max(f.budget/8, leastJournal), mostJournal)
	}
	kinds := strings.Split(f.kinds, ",")
	for i, kind := range kinds {
		var err error
		if kinds[i], err = absolute(kind); err != nil {
			return nil, err
		}
	}
	return &pick.Device{Kind: strings.Join(kinds, ","), Bytes: int64(f.budget), Journal: int64(f.journal), Policy: policy}, nil
}

// The journal, where nobody says: enough for a few batches, and not more of a host's memory than
// what is put back sooner for it is worth.
const (
	leastJournal = 1 << 20
	mostJournal  = 256 << 20
)

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
