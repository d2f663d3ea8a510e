package dataset

// leafText is the text of one own leaf on its way to a parser.
type leafText struct {
	batch    *pending
	leaf     int    // index in Step.Leaves
	text     []byte // rows, one behind the other
	ends     []int  // of each row in text
	rows     int
	segments []segment
}

// segment says where rows come from: from row on, lines follow one another in
// one file. A new one begins at a file's start and behind blank lines.
type segment struct {
	row, line int
	in        *input
}

func (t *leafText) add(line []byte, in *input, number int) {
	if k := len(t.segments) - 1; k < 0 || t.segments[k].in != in || t.segments[k].line+t.rows-t.segments[k].row != number {
		t.segments = append(t.segments, segment{t.rows, number, in})
	}
	t.text = append(t.text, line...)
	t.ends = append(t.ends, len(t.text))
	t.rows++
}

func (t *leafText) reset() {
	t.batch, t.text, t.ends, t.rows, t.segments = nil, t.text[:0], t.ends[:0], 0, t.segments[:0]
}
