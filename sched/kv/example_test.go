package kv_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"

	"psrt/sched/kv"
	"psrt/sched/serve"
	"psrt/sched/server"
)

// The tables, as in the file that psrt serve --tables reads.
const tables = `
tables:
  - {name: w, dim: 1, rule: ftrl, lr: 1, init: zero}
  - {name: seen, dim: 1, rule: sum}
`

// Example learns a logistic regression through a server. The server is in this
// process here; `psrt serve` runs the same one by itself.
func Example() {
	token := []byte("what server and trainers know")
	addr, stop := startServer(token)
	defer stop()

	ctx := context.Background()
	client, err := kv.Open(ctx, kv.Config{Servers: []string{addr}, Token: token})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	weights, err := client.Table("w")
	if err != nil {
		log.Fatal(err)
	}
	seen, err := client.Table("seen")
	if err != nil {
		log.Fatal(err)
	}

	const fields, batch = 4, 64
	clicks := newClicks(fields)
	keys, values, grads := make([]uint64, batch*fields), make([]float32, batch*fields), make([]float32, batch*fields)
	ones := make([]float32, batch*fields)
	for i := range ones {
		ones[i] = 1
	}
	for range 500 {
		labels := clicks.draw(keys)
		ticket, err := weights.PullTicket(keys, values, kv.Options{})
		if err != nil {
			log.Fatal(err)
		}
		for i, label := range labels {
			row := values[i*fields : (i+1)*fields]
			dz := (sigmoid(row) - label) / batch
			for j := range row {
				grads[i*fields+j] = dz
			}
		}
		// By ticket: the keys of the pull are not sent again.
		if err := weights.PushTicket(ticket, len(keys), grads, kv.Options{}); err != nil {
			log.Fatal(err)
		}
		if err := seen.Push(keys, ones, kv.Options{}); err != nil {
			log.Fatal(err)
		}
	}

	// How well does it order clicks that it has not seen?
	right, pairs := 0.0, 0.0
	for range 50 {
		labels := clicks.draw(keys)
		if err := weights.Pull(keys, values, kv.Options{ReadOnly: true}); err != nil {
			log.Fatal(err)
		}
		for i := range labels {
			for j := range labels {
				if labels[i] > labels[j] {
					pairs++
					if sigmoid(values[i*fields:(i+1)*fields]) > sigmoid(values[j*fields:(j+1)*fields]) {
						right++
					}
				}
			}
		}
	}
	fmt.Printf("AUC above 0.8: %v\n", right/pairs > 0.8)

	counts := make([]float32, 1)
	if err := seen.Pull([]uint64{0}, counts, kv.Options{}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("id 0 was counted right: %v\n", counts[0] == clicks.zeros)
	// Output:
	// AUC above 0.8: true
	// id 0 was counted right: true
}

func startServer(token []byte) (addr string, stop func()) {
	specs, err := serve.ParseTables("tables.yaml", []byte(tables))
	if err != nil {
		log.Fatal(err)
	}
	s, err := serve.New(serve.Config{Listen: "127.0.0.1:0", Token: token, Tables: specs, Lanes: 2, Clients: 4, Staleness: server.Async, Node: -1})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	return s.Addr(), func() {
		cancel()
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
}

func sigmoid(weights []float32) float32 {
	z := float32(0)
	for _, w := range weights {
		z += w
	}
	return float32(1 / (1 + math.Exp(-float64(z))))
}

// clicks draws lines of ids whose planted weights decide on the click.
type clicks struct {
	rng    *rand.Rand
	fields int
	zeros  float32 // times that id 0 was drawn for training
	lines  int
}

func newClicks(fields int) *clicks {
	return &clicks{rng: rand.New(rand.NewPCG(1, 2)), fields: fields}
}

func (c *clicks) draw(keys []uint64) (labels []float32) {
	for i := 0; i < len(keys); i += c.fields {
		z := 0.0
		for j := range c.fields {
			id := uint64(j*50 + c.rng.IntN(50))
			keys[i+j] = id
			z += 3 * math.Sin(float64(id)*1.7)
			if id == 0 && c.lines < 500*64 {
				c.zeros++
			}
		}
		c.lines++
		label := float32(0)
		if sigmoid([]float32{float32(z)}) > c.rng.Float32() {
			label = 1
		}
		labels = append(labels, label)
	}
	return labels
}
