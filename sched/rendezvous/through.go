package rendezvous

import (
	"context"
	"errors"
	"fmt"

	"psrt/sched/coord"
)

// Through is the exchange of ranks that reach a coordinator already: started by
// hand, or in one host's folder.
func Through(c coord.Coordinator, rank, world int, who func(rank int) string) Exchange {
	return &throughExchange{c, rank, world, who}
}

type throughExchange struct {
	c           coord.Coordinator
	rank, world int
	who         func(rank int) string
}

func (e *throughExchange) Name() string { return "the coordinator" }

func (e *throughExchange) Round(ctx context.Context, name string, word []byte) ([][]byte, error) {
	if err := checkRound(ctx, name, word); err != nil {
		return nil, err
	}
	party := coord.Party{Name: name, N: e.world, ID: e.rank, Who: func(id int) string { return fmt.Sprintf("rank %d (%s)", id, e.who(id)) }}
	all, err := party.Gather(ctx, e.c, word)
	var missing *coord.MissingError
	if errors.As(err, &missing) {
		return nil, fmt.Errorf("rendezvous: %s: %w; start every rank, with the same --coordinator and --token-file", e.who(e.rank), err)
	}
	return all, err
}

// Close leaves the coordinator to its owner.
func (e *throughExchange) Close() error { return nil }
