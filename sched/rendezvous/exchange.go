package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"psrt/csrc/pmix"
)

// MaxWord bounds what a rank says in one round, in bytes.
const MaxWord = 48 << 10

// Exchange lets the ranks of a job tell each other a few words.
type Exchange interface {
	// Name is how people know it: "PMIx", "PMI", ...
	Name() string
	// Round gives every rank what each has said, by rank. It is a barrier. The
	// same name at every rank, each once; ctx must have a deadline.
	Round(ctx context.Context, name string, word []byte) ([][]byte, error)
	// Close says that this rank needs it no more.
	Close() error
}

// ErrNoExchange: the launcher gives ranks no way to talk to each other.
var ErrNoExchange = errors.New("rendezvous: the launcher offers no exchange")

// openTimeout bounds the first word with the launcher's server, which is on this
// host.
const openTimeout = 30 * time.Second

// Open finds the exchange that the launcher of this process offers. An error
// that is ErrNoExchange says why there is none.
func Open(ctx context.Context, id Identity) (Exchange, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	why := "neither PMIX_NAMESPACE nor PMI_FD is set"
	if os.Getenv("PMIX_NAMESPACE") != "" {
		c, err := pmix.Open(ctx)
		switch {
		case err == nil && c.Rank == id.Rank && c.Size == id.World:
			return &pmixExchange{c: c}, nil
		case err == nil:
			_ = c.Close(ctx)
			why = fmt.Sprintf("PMIx says rank %d of %d", c.Rank, c.Size)
		case errors.Is(err, pmix.ErrNotSupported):
			why = fmt.Sprintf("this job has PMIx, but %v: install libpmix2", err)
		default:
			return nil, fmt.Errorf("rendezvous: rank %d: %w", id.Rank, err)
		}
	}
	if os.Getenv("PMI_FD") != "" {
		e, err := openPMI(ctx, os.Getenv("PMI_FD"), id.Rank, id.World)
		if err != nil {
			return nil, fmt.Errorf("rendezvous: rank %d: %w", id.Rank, err)
		}
		return e, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNoExchange, why)
}

func checkRound(ctx context.Context, name string, word []byte) error {
	if _, ok := ctx.Deadline(); !ok {
		return fmt.Errorf("rendezvous: round %s without a deadline", name)
	}
	if name == "" || len(word) == 0 || len(word) > MaxWord {
		return fmt.Errorf("rendezvous: round %q with a word of %d bytes, want a name, and 1 to %d bytes", name, len(word), MaxWord)
	}
	return nil
}
