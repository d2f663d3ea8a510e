package tables

import (
	"fmt"
	"strings"

	"psrt/bench/report"
	"psrt/bench/turns"
)

func notes(c *Config) []string {
	return []string{
		"a message is a key: rate is million keys a second, bytes those of its weights (of the key itself for lookup)",
		fmt.Sprintf("%d rows, %d threads with a table each, optimizer %s, batches of %d keys; all rows are asked for in random order before one comes again",
			c.Rows, c.Threads, c.spec(1).Optimizer.WithDefaults().Kind, c.Keys),
		"limit: one prefetching loop over as many bytes of rows: a key's one line of index follows from the key, its row is copied out, or all its floats get the gradient added",
		fmt.Sprintf("insert builds the whole table in new memory, growth of the index and birth of the rows included, in at most %d rounds; of the limit the rows are copied in, born already", buildRounds),
		turns.Note,
	}
}

// memory says what a row takes.
func (r *run) memory(dim int) string {
	var rows, used, index, reserved int64
	pages := ""
	for _, l := range r.lanes {
		s := l.sides[mine].(*ours).t.Stats()
		rows, used, index, reserved, pages = rows+int64(s.Rows), used+s.Bytes, index+s.IndexBytes, reserved+s.Reserved, s.Memory
	}
	spec := r.cfg.spec(dim)
	each := func(bytes int64) float64 { return float64(bytes) / float64(rows) }
	_, pages, _ = strings.Cut(pages, ": ")
	return fmt.Sprintf("rows of %d floats: %.1f bytes of memory a row, of them weights %d, optimizer state %d, index %.1f; reserved %.1f MiB in all; newest arena: %s",
		dim, each(used), 4*dim, spec.RowBytes()-4*dim, each(index), float64(reserved)/(1<<20), pages)
}

// speeds gives the nanoseconds of a key.
func speeds(c *Config, dim int, rows []report.Row) string {
	var parts []string
	for _, row := range rows {
		ns := func(gbs float64) float64 { return float64(c.Threads) * float64(row.Bytes) / gbs }
		name, _, _ := strings.Cut(row.Op, ", rows")
		parts = append(parts, fmt.Sprintf("%s %.1f (limit %.1f)", name, ns(row.Bandwidth.Avg), ns(row.Limit)))
	}
	return fmt.Sprintf("rows of %d floats, ns a key and thread: %s", dim, strings.Join(parts, "; "))
}
