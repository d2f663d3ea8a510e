package gen

import (
	"context"
	"sync"
)

const chunkRows = 1024

// chunk is what one goroutine made of some consecutive rows.
type chunk struct {
	text   [][]byte // for each part
	rows   []int64
	codes  []uint32 // of the training rows
	judged []judged
	done   chan struct{}
}

type judged struct {
	planted, reachable float64
	label              byte
}

func (c *chunk) reset(parts int) {
	if c.text == nil {
		c.text, c.rows = make([][]byte, parts), make([]int64, parts)
	}
	for i := range c.text {
		c.text[i], c.rows[i] = c.text[i][:0], 0
	}
	c.codes, c.judged, c.done = c.codes[:0], c.judged[:0], make(chan struct{})
}

// inOrder makes chunks in several goroutines and takes them in order in the
// caller's. At most 2 x threads chunks exist.
func inOrder(ctx context.Context, total int64, threads, parts int, fill func(c *chunk, from, to int64), take func(*chunk) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type job struct {
		c        *chunk
		from, to int64
	}
	jobs := make(chan job)
	order := make(chan *chunk, 2*threads)
	idle := make(chan *chunk, 2*threads)
	for range cap(idle) {
		idle <- new(chunk)
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() {
		defer close(order)
		defer close(jobs)
		for from := int64(0); from < total; from += chunkRows {
			select {
			case c := <-idle:
				c.reset(parts)
				order <- c // has room for every chunk
				select {
				case jobs <- job{c, from, min(from+chunkRows, total)}:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	for range threads {
		wait.Go(func() {
			for j := range jobs {
				fill(j.c, j.from, j.to)
				close(j.c.done)
			}
		})
	}
	for c := range order {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := take(c); err != nil {
			return err
		}
		idle <- c
	}
	return ctx.Err()
}
