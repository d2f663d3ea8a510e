package dataset

// parseLeaf turns a leaf's text into rows.
func parseLeaf(p lineParser, t *leafText, b *Batch) error {
	from, row := 0, 0
	for k, seg := range t.segments {
		rows := t.rows - seg.row
		if k+1 < len(t.segments) {
			rows = t.segments[k+1].row - seg.row
		}
		for i := range rows {
			if e := p.parse(t.text[from:t.ends[row]], seg.in, b); e != nil {
				e = explain(p, t.text[from:t.ends[row]], e, seg.line+i == seg.in.first)
				return e.at(seg.in.path, seg.line+i)
			}
			from = t.ends[row]
			row++
		}
	}
	return nil
}
