package whole

import (
	"context"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"psrt/bench/cable"
	"psrt/bench/report"
	"psrt/bench/turns"
	"psrt/sched/train"
)

// measured is what a run has found.
type measured struct {
	cfg    *Config
	bytes  float64 // that a step moves each way, bare
	links  []float64
	took   [sidesAll][]float64 // seconds a turn
	loss   float64             // of the synchronous training
	digest string
}

const (
	linkTime = 500 * time.Millisecond
	// sameLoss is how far the loss of the rival may be from the trainer's in BSP, which
	// makes the same sums in another order; nearLoss how far ASP's may, which has rows
	// that are a few steps old. As shares.
	sameLoss = 1e-4
	nearLoss = 0.02
)

// agree trains in BSP over the link and locally, and holds both against each other.
func (st *station) agree(ctx context.Context, m *measured) error {
	if err := st.step("comparing digests"); err != nil {
		return err
	}
	there, err := st.over(ctx, train.BSP)
	if err != nil {
		return fmt.Errorf("%s: %w", sideNames[ours], err)
	}
	here, err := st.local(ctx, train.BSP)
	if err != nil {
		return fmt.Errorf("%s: %w", sideNames[localSide], err)
	}
	if there.digest != here.digest {
		return fmt.Errorf("whole: in bsp the model has digest %s over the link and %s on this host: please report it", there.digest, here.digest)
	}
	m.loss, m.digest = there.loss, there.digest
	return nil
}

// add takes a turn's outcome, if it trained the model that it should.
func (m *measured) add(side int, out outcome) error {
	allowed := nearLoss
	switch side {
	case bareSide: // whose rows stay as they are
		allowed = math.Inf(1)
	case classicSide:
		allowed = sameLoss
	}
	if off := math.Abs(out.loss-m.loss) / m.loss; !(off <= allowed) {
		return fmt.Errorf("whole: a loss of %.6f where the synchronous training has %.6f, want within %g of it", out.loss, m.loss, allowed)
	}
	m.took[side] = append(m.took[side], out.seconds)
	return nil
}

// rows are of all sides; the limit is the training with local rows.
func (m *measured) rows() (rows []report.Row) {
	limit := turns.Median(m.took[localSide])
	for k, took := range m.took {
		var ratios []float64
		whole := report.Histogram{}
		for round, s := range took {
			ratios = append(ratios, m.took[localSide][round]/s)
			whole.Record(time.Duration(s / float64(m.cfg.Steps) * 1e9))
		}
		row := report.Row{Op: sideNames[k], Bytes: int(m.bytes), Iterations: m.cfg.Steps * m.cfg.Rounds, Latency: whole.Latency(),
			Limit: limit / float64(m.cfg.Steps) * 1e6, Ratio: turns.Median(ratios), Load: report.Load(),
			Checksum: fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(m.digest)))}
		row.Latency.Typical = turns.Median(took) / float64(m.cfg.Steps) * 1e6
		rows = append(rows, row)
	}
	return rows
}

// against is how many times faster ours was than another side, round by round.
func (m *measured) against(side int) float64 {
	var ratios []float64
	for round, s := range m.took[ours] {
		ratios = append(ratios, m.took[side][round]/s)
	}
	return turns.Median(ratios)
}

func (m *measured) notes(d *data) []string {
	link := "link: loopback, whose limit is this machine's memory and cores"
	stream := turns.Median(m.links)
	if m.cfg.Link == cable.Veth {
		link = fmt.Sprintf("link: a cable between two network namespaces, %.1f Mbit/s each way (tbf) and a queue of %d bytes; a plain TCP stream has %.1f Mbit/s",
			float64(m.cfg.RateBits)/1e6, m.cfg.QueueBytes, 8*stream/1e6)
	}
	step := turns.Median(m.took[localSide]) / float64(m.cfg.Steps)
	speed := func(side int) float64 {
		return float64(m.cfg.Steps*m.cfg.Batch) / turns.Median(m.took[side])
	}
	return []string{
		link,
		fmt.Sprintf("a step: %d examples of %d fields, %s of %d floats a row and %d dense parameters; %.0f bytes of values and as many of gradients, bare, for each of which such a stream takes %.2f of a step with local rows",
			m.cfg.Batch, m.cfg.Fields, d.spec.Kind, d.model.RowDim(), d.model.Layout().Total, m.bytes, m.bytes/stream/step),
		"limit: the same training with its server on this host, over shared memory; the checksum is of the digest that bsp has over the link and on this host; the rival has its loss within " + fmt.Sprint(sameLoss),
		"rival: pulls, computes and pushes one after the other over a plain socket, reads and numbers rows ahead; its dense parameters do not travel",
		"arithmetic alone: rows are neither pulled nor updated",
		fmt.Sprintf("examples/s: psrt %.0f, rival %.0f, rows on this host %.0f, arithmetic alone %.0f", speed(ours), speed(classicSide), speed(localSide), speed(bareSide)),
		fmt.Sprintf("psrt over the link: %.2f x the rival (bar 2), %.3f of rows on this host (bar 0.9), %.3f of the arithmetic alone; medians of each round's own", m.against(classicSide), m.against(localSide), m.against(bareSide)),
	}
}
