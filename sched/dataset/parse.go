package dataset

import "bytes"

// parseLeaf turns a leaf's text into rows.
func parseLeaf(p lineParser, files []string, t *leafText, b *Batch) error {
	text, row := t.text, 0
	for k, seg := range t.segments {
		rows := t.rows - seg.row
		if k+1 < len(t.segments) {
			rows = t.segments[k+1].row - seg.row
		}
		for i := range rows {
			end := bytes.IndexByte(text, '\n')
			if e := p.parse(text[:end], seg.file, b); e != nil {
				return e.at(files[seg.file], seg.line+i)
			}
			text = text[end+1:]
			row++
		}
	}
	return nil
}
