package rendezvous

import (
	"context"
	"errors"
	"sync"
	"time"

	"psrt/csrc/pmix"
)

// pmixExchange is the launcher's PMIx server.
type pmixExchange struct{ c *pmix.Client }

func (e *pmixExchange) Name() string { return "PMIx" }

func (e *pmixExchange) Round(ctx context.Context, name string, word []byte) ([][]byte, error) {
	if err := checkRound(ctx, name, word); err != nil {
		return nil, err
	}
	began := time.Now()
	key := "psrt." + name
	if err := e.c.Put(key, word); err != nil {
		return nil, err
	}
	if err := e.c.Fence(ctx); err != nil {
		var said *pmix.Error
		if ctx.Err() != nil || errors.As(err, &said) && said.Timeout() {
			return nil, &MissingError{By: e.Name(), Waited: time.Since(began), Ranks: e.missing(key), World: e.c.Size, Cause: err}
		}
		return nil, err
	}
	all := make([][]byte, e.c.Size)
	for r := range all {
		word, err := e.c.Get(ctx, r, key)
		if err != nil {
			return nil, &MissingError{By: e.Name(), Waited: time.Since(began), Ranks: []int{r}, World: e.c.Size, Cause: err}
		}
		all[r] = word
	}
	return all, nil
}

// missingWait is for asking each rank's server for what it should have put.
const missingWait = 2 * time.Second

// missing asks for every rank's word by itself after a fence that failed.
func (e *pmixExchange) missing(key string) []int {
	ctx, cancel := context.WithTimeout(context.Background(), missingWait)
	defer cancel()
	gone := make([]bool, e.c.Size)
	var all sync.WaitGroup
	for r := range gone {
		all.Go(func() {
			_, err := e.c.Get(ctx, r, key)
			gone[r] = err != nil
		})
	}
	all.Wait()
	var ranks []int
	for r, is := range gone {
		if is {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

func (e *pmixExchange) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	return e.c.Close(ctx)
}
