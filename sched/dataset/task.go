package dataset

// leafText is the text of one own leaf on its way to a parser.
type leafText struct {
	batch    *pending
	leaf     int    // index in Step.Leaves
	text     []byte // whole lines, each with its newline
	rows     int
	segments []segment
}

// segment says where rows come from: from row on, lines follow one another in
// one file. A new one begins at a file's start and behind blank lines.
type segment struct {
	row, file, line int
}

func (t *leafText) add(line []byte, file, number int) {
	if k := len(t.segments) - 1; k < 0 || t.segments[k].file != file || t.segments[k].line+t.rows-t.segments[k].row != number {
		t.segments = append(t.segments, segment{t.rows, file, number})
	}
	t.text = append(append(t.text, line...), '\n')
	t.rows++
}

func (t *leafText) reset() {
	t.batch, t.text, t.rows, t.segments = nil, t.text[:0], 0, t.segments[:0]
}
