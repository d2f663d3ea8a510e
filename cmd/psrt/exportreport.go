package main

import (
	"fmt"
	"io"
	"strings"

	"psrt/tiers/export"
)

// exporting shows how far an export is, on a terminal.
func (d *display) exporting(p export.Progress) {
	if d.quiet || !d.terminal {
		return
	}
	d.passing(fmt.Sprintf("%s %s: %s of %s rows", p.Doing, p.Table, si(float64(p.Rows)), si(float64(p.Of))))
}

// printExport is the end of psrt export for people.
func printExport(w io.Writer, e *exported) {
	fmt.Fprintf(w, "%s in %s%s\n", e.Format, e.Out, origin(&e.Source))
	printFiles(w, e.Content)
	if e.Full == nil {
		return
	}
	fmt.Fprintf(w, "%-12s %d\n", "rows", e.Full.Counted())
	if e.Full.OneClass() {
		fmt.Fprintf(w, "%-12s %s\n", "AUC", noAUC)
	}
	for _, f := range []struct {
		name         string
		full, export *float64
	}{{"AUC", e.Full.AUC, e.Export.AUC}, {"logloss", e.Full.LogLoss, e.Export.LogLoss}, {"RMSE", e.Full.RMSE, e.Export.RMSE}} {
		if f.full != nil && f.export != nil {
			fmt.Fprintf(w, "%-12s %.6f of the model, %.6f of the export (%+.6f)\n", f.name, *f.full, *f.export, *f.export-*f.full)
		}
	}
}

// origin says which model it is of, as far as that is known.
func origin(s *export.Source) string {
	out := ""
	if s.Generation > 0 {
		out += fmt.Sprintf(", of generation %d at step %d", s.Generation, s.Step)
	}
	if s.Digest != "" {
		out += ", of the model with digest " + s.Digest
	}
	return out
}

func printFiles(w io.Writer, c *export.Content) {
	for _, t := range c.Tables {
		var left []string
		if t.Unserved > 0 {
			left = append(left, fmt.Sprintf("%d rows that are not served", t.Unserved))
		}
		if t.Zero > 0 {
			left = append(left, fmt.Sprintf("%d rows of zeros", t.Zero))
		}
		without := ""
		if len(left) > 0 {
			without = "; without " + strings.Join(left, " and ")
		}
		fmt.Fprintf(w, "%-12s %s: %d rows of %d weights, %s, %.1f MB%s\n", t.Spec.Name, t.File, t.Rows, t.Spec.Dim, t.Encoding, float64(t.Bytes)/1e6, without)
	}
	for _, d := range c.Dense {
		fmt.Fprintf(w, "%-12s %s: %d parameters, %.1f MB\n", d.Name, d.File, d.Elements, float64(d.Bytes)/1e6)
	}
}

// printVerified is psrt export verify's good answer.
func printVerified(w io.Writer, dir, kind string, c *export.Content) {
	fmt.Fprintf(w, "%s in %s is as it was written%s\n", kind, dir, origin(&c.Source))
	printFiles(w, c)
}
