package gen

import (
	"context"
	"path/filepath"
	"strings"
)

// File is one file written.
type File struct {
	Path string `json:"path"`
	Part string `json:"part"` // train, valid, test, or "" for everything
	Rows int64  `json:"rows"`
}

// Result says what was written and what can be reached on it.
type Result struct {
	Files    []File  `json:"files"`
	Format   string  `json:"format"` // as the readers name it
	Rows     int64   `json:"rows"`
	Fields   int     `json:"fields"`
	BaseRate float64 `json:"base_rate"` // share of positive labels, over all parts

	// Over the test part, or over all rows when there is no split.
	// Absent where these rows are all positive or all negative, and no AUC
	// exists.
	AUCPlanted   *float64 `json:"auc_planted,omitempty"`   // of the planted model: nothing can be better but by luck
	AUCReachable *float64 `json:"auc_reachable,omitempty"` // with ids seen less than 20 times in training replaced by their field's mean; at most AUCPlanted
	Judged       int64    `json:"judged"`                  // rows these are over

	// Luck says that so few rows were judged that the restricted model came
	// out above the planted one; AUCReachable is then AUCPlanted.
	Luck bool `json:"luck,omitempty"`

	// Over the training part, or over all rows when there is no split.
	IDs           int64   `json:"ids"`
	IDsSeenOften  int64   `json:"ids_seen_20"`
	SeenOnceShare float64 `json:"seen_once_share"` // of ids
}

// Run writes the data set. On an error no file is left half written.
func Run(ctx context.Context, c Config) (Result, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return Result{}, err
	}
	parts, err := c.split()
	if err != nil {
		return Result{}, err
	}
	g := &generator{config: c, parts: parts, model: plant(c)}
	g.census = newCensus(g.model)
	if c.Kind == "criteo" {
		g.form, g.result.Format = newCriteoLine(c.Seed), "criteo"
	} else {
		g.form, g.result.Format = ffmLine{mix(c.Seed)}, "libffm"
		if ext := firstExt(c.Out); ext == "libsvm" || ext == "svm" {
			g.form, g.result.Format = svmLine{ffmLine{mix(c.Seed)}}, "libsvm"
		}
	}
	defer g.abandon()
	if err := g.write(ctx); err != nil {
		return Result{}, err
	}
	if err := g.judge(ctx); err != nil {
		return Result{}, err
	}
	for k, o := range g.outs {
		if err := o.finish(); err != nil {
			return Result{}, err
		}
		g.result.Files = append(g.result.Files, File{o.path, parts[k].name, o.rows})
	}
	return g.result, nil
}

// firstExt is the extension without that of the compression.
func firstExt(path string) string {
	base := filepath.Base(path)
	for _, packed := range []string{".gz", ".zst", ".lz4"} {
		base = strings.TrimSuffix(base, packed)
	}
	return strings.TrimPrefix(filepath.Ext(base), ".")
}

// generator is one run.
type generator struct {
	config Config
	parts  []part
	model  *model
	form   formatter
	census *census
	outs   []*output
	result Result
}

func (g *generator) abandon() {
	for _, o := range g.outs {
		o.abandon()
	}
}

// write is the first pass: rows to files, codes of the training part counted.
func (g *generator) write(ctx context.Context) error {
	for _, p := range g.parts {
		o, err := create(partPath(g.config.Out, p.name))
		if err != nil {
			return err
		}
		g.outs = append(g.outs, o)
	}
	var positive int64
	fill := func(c *chunk, from, to int64) {
		r := row{codes: make([]uint32, len(g.model.fields))}
		for i := from; i < to; i++ {
			g.model.row(i, &r)
			k := partOf(g.config.Seed, i, g.parts)
			c.text[k] = g.form.line(c.text[k], &r)
			c.rows[k]++
			if k == 0 {
				c.codes = append(c.codes, r.codes...)
			}
			c.judged = append(c.judged, judged{label: r.label})
		}
	}
	take := func(c *chunk) error {
		g.census.add(c.codes)
		for _, j := range c.judged {
			positive += int64(j.label)
		}
		for k, o := range g.outs {
			if err := o.write(c.text[k], c.rows[k]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := inOrder(ctx, g.config.Rows, g.config.Threads, len(g.parts), fill, take); err != nil {
		return err
	}
	g.census.settle(g.model)
	all, often, once := g.census.ids()
	g.result.Rows, g.result.Fields = g.config.Rows, len(g.model.fields)
	g.result.BaseRate = float64(positive) / float64(g.config.Rows)
	g.result.IDs, g.result.IDsSeenOften, g.result.SeenOnceShare = all, often, float64(once)/float64(max(all, 1))
	return nil
}

// judge is the second pass: the rows of the test part are made again, and
// scored by the planted model and by what of it can be learnt.
func (g *generator) judge(ctx context.Context) error {
	last := len(g.parts) - 1
	fill := func(c *chunk, from, to int64) {
		r := row{codes: make([]uint32, len(g.model.fields))}
		for i := from; i < to; i++ {
			if partOf(g.config.Seed, i, g.parts) == last {
				g.model.row(i, &r)
				c.judged = append(c.judged, judged{r.logit, g.census.reachable(g.model, &r), r.label})
			}
		}
	}
	planted, reachable := newCurve(), newCurve()
	take := func(c *chunk) error {
		for _, j := range c.judged {
			g.result.Judged++
			planted.add(j.planted, j.label)
			reachable.add(j.reachable, j.label)
		}
		return nil
	}
	if err := inOrder(ctx, g.config.Rows, g.config.Threads, len(g.parts), fill, take); err != nil {
		return err
	}
	best, ok := planted.auc()
	if !ok {
		return nil
	}
	learnt, _ := reachable.auc() // over the same labels
	if learnt > best {
		learnt, g.result.Luck = best, true
	}
	g.result.AUCPlanted, g.result.AUCReachable = &best, &learnt
	return nil
}
