package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"psrt/sched/coord"
	"psrt/sched/dataset"
	"psrt/sched/exchange"
)

func rowsKey(worker int) string { return fmt.Sprintf("rows/%d", worker) }

// askAddress is how long the exchange waits for a worker to say where it is, before it
// looks at its own time.
const askAddress = 10 * time.Second

// openParts makes this worker one of those that keep a share of the rows each and give
// each other what a global shuffle deals them. A process that takes the worker's place
// reads the share anew, and is found under the same key.
func (w *worker) openParts(ctx context.Context) (*dataset.Parts, error) {
	if !w.job.GlobalShuffle || w.job.Workers == 1 {
		return nil, nil
	}
	listen := w.rank.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	options := exchange.Options{Me: w.rank.Index, Size: w.job.Workers, Timeout: w.rank.timeout(), Node: w.rank.Node,
		Address: func(ctx context.Context, worker int) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, askAddress)
			defer cancel()
			v, err := coord.Await(ctx, w.rank.Coord, rowsKey(worker))
			return string(v), err
		}}
	m, err := exchange.Listen(w.rank.Host, listen, options)
	if err != nil && (w.collective != nil || w.rank.Generation > 1) {
		m, err = exchange.Listen(w.rank.Host, beside(listen, "rows", w.rank.Index), options)
	}
	if err != nil {
		return nil, fmt.Errorf("train: --global-shuffle: %w", err)
	}
	parts := &dataset.Parts{Me: w.rank.Index, Rows: m}
	for i := range w.job.Workers {
		s, err := w.job.share(i)
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		parts.Shares = append(parts.Shares, s)
	}
	if _, err := w.rank.Coord.Put(ctx, rowsKey(w.rank.Index), []byte(m.Addr()), 0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	w.rows = m
	return parts, nil
}
