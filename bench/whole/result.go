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
	"psrt/sched/compress"
	"psrt/sched/train"
)

// measured is what a run has found.
type measured struct {
	cfg    *Config
	bytes  float64 // that a step moves each way, bare
	links  []float64
	took   [][]float64          // seconds a turn, by side
	packed []*train.CompressUse // of a side's last turn
	moved  []uint64             // likewise, bytes
	waits  []waits              // likewise
	loss   float64              // of the synchronous training
	digest string
}

func newMeasured(c *Config) *measured {
	n := len(c.names())
	return &measured{cfg: c, took: make([][]float64, n), packed: make([]*train.CompressUse, n), moved: make([]uint64, n), waits: make([]waits, n)}
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
	names := st.cfg.names()
	there, err := st.over(ctx, train.BSP, compress.Choice{})
	if err != nil {
		return fmt.Errorf("%s: %w", names[ours], err)
	}
	here, err := st.local(ctx, train.BSP)
	if err != nil {
		return fmt.Errorf("%s: %w", names[localSide], err)
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
	if m.cfg.Crew > 0 && side >= m.cfg.crew() && out.digest != m.digest {
		return fmt.Errorf("whole: in bsp the model has digest %s where one worker's has %s: please report it", out.digest, m.digest)
	}
	m.took[side], m.packed[side], m.moved[side], m.waits[side] = append(m.took[side], out.seconds), out.packed, out.moved, out.waits
	return nil
}

// rows are of all sides; the limit is the training with local rows.
func (m *measured) rows() (rows []report.Row) {
	limit, names := turns.Median(m.took[localSide]), m.cfg.names()
	for k, took := range m.took {
		var ratios []float64
		whole := report.Histogram{}
		for round, s := range took {
			ratios = append(ratios, m.took[localSide][round]/s)
			whole.Record(time.Duration(s / float64(m.cfg.Steps) * 1e9))
		}
		row := report.Row{Op: names[k], Bytes: int(m.bytes), Iterations: m.cfg.Steps * m.cfg.Rounds, Latency: whole.Latency(),
			Limit: limit / float64(m.cfg.Steps) * 1e6, Ratio: turns.Median(ratios), Load: report.Load(),
			Checksum: fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(m.digest)))}
		row.Latency.Typical = turns.Median(took) / float64(m.cfg.Steps) * 1e6
		rows = append(rows, row)
	}
	return rows
}

// against is how many times faster ours was than another side, round by round.
func (m *measured) against(side int) float64 { return m.ratio(ours, side) }

// ratio is how many times faster one side was than another, round by round.
func (m *measured) ratio(side, other int) float64 {
	var ratios []float64
	for round, s := range m.took[side] {
		ratios = append(ratios, m.took[other][round]/s)
	}
	return turns.Median(ratios)
}

// compressed is what each way of compressing brought.
func (m *measured) compressed() (notes []string) {
	for i := range m.cfg.Compress {
		side := int(sidesAll) + i
		text := fmt.Sprintf("%s: %.3f x the speed without", m.cfg.names()[side], m.ratio(side, ours))
		if p := m.packed[side]; p != nil {
			text += fmt.Sprintf(", %.2f of the gradients' bytes (%s)", float64(p.PackedBytes)/float64(max(1, p.FloatBytes)), p.Code)
		}
		notes = append(notes, text)
	}
	return notes
}

// crewed is what workers brought that pull and push as one.
func (m *measured) crewed() []string {
	if m.cfg.Crew == 0 {
		return nil
	}
	each, one := m.cfg.crew(), m.cfg.crew()+1
	return []string{fmt.Sprintf("%d workers as one host: %.2f x the speed of each for itself, %.2f of the bytes between servers and workers (%.0f a step instead of %.0f); the digest of both is one worker's",
		m.cfg.Crew, m.ratio(one, each), float64(m.moved[one])/float64(max(1, m.moved[each])), float64(m.moved[one])/float64(m.cfg.Steps), float64(m.moved[each])/float64(m.cfg.Steps))}
}

// stood is where a side's time went.
func (m *measured) stood(side int) string {
	w := m.waits[side]
	return fmt.Sprintf("%.2f computing, %.2f waiting for values, %.2f for pushes", w.compute, w.values, w.pushes)
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
	return append([]string{
		link,
		fmt.Sprintf("a step: %d examples of %d fields, %s of %d floats a row and %d dense parameters; %.0f bytes of values and as many of gradients, bare, for each of which such a stream takes %.2f of a step with local rows",
			m.cfg.Batch, m.cfg.Fields, d.spec.Kind, d.model.RowDim(), d.model.Layout().Total, m.bytes, m.bytes/stream/step),
		"limit: the same training with its server on this host, over shared memory; the checksum is of the digest that bsp has over the link and on this host; the rival has its loss within " + fmt.Sprint(sameLoss),
		"rival: pulls, computes and pushes one after the other over a plain socket, reads and numbers rows ahead; its dense parameters do not travel",
		"arithmetic alone: rows are neither pulled nor updated",
		fmt.Sprintf("examples/s: psrt %.0f, rival %.0f, rows on this host %.0f, arithmetic alone %.0f", speed(ours), speed(classicSide), speed(localSide), speed(bareSide)),
		fmt.Sprintf("psrt over the link: %.2f x the rival (bar 2), %.3f of rows on this host (bar 0.9), %.3f of the arithmetic alone; medians of each round's own", m.against(classicSide), m.against(localSide), m.against(bareSide)),
		fmt.Sprintf("with --on-worker-loss restart, psrt train's default where it starts the ranks: %.0f examples/s, %.2f x the rival, %.3f of rows on this host; the others have --on-worker-loss end, with which more pushes may be unanswered",
			speed(survivingSide), m.ratio(survivingSide, classicSide), m.ratio(survivingSide, localSide)),
		fmt.Sprintf("ceiling: rows on this host while as many bytes cross the link each way, over plain sockets, and are dropped: %.3f of rows on this host alone; psrt over the link has %.3f of it",
			m.ratio(besideSide, localSide), m.against(besideSide)),
		fmt.Sprintf("of its last turn psrt over the link was %s; with rows on this host %s", m.stood(ours), m.stood(localSide)),
	}, append(m.compressed(), m.crewed()...)...)
}
