package dataset

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
)

// rows gives a file's rows as text, one by one.
type rows interface {
	// next is the next row, valid until the next call; io.EOF behind the last, and
	// an *Error for bad input.
	next() ([]byte, error)
	// number is that of the line, or in files without lines of the row, last
	// returned, from 1.
	number() int
	// columns says that the cells are the schema's columns in their order, whatever
	// the first row looks like.
	columns() bool
	Close()
}

// openRows opens a file as the options say: through a command, or as what its first
// bytes say it is. ctx ends a command. warn, which may be nil, hears of bytes that are ignored.
func openRows(ctx context.Context, path string, o *Options, buf []byte, warn func(string)) (rows, error) {
	if o.Pipe != "" {
		in, err := openPipe(ctx, path, o)
		if err != nil {
			return nil, err
		}
		return newLines(path, in, buf, o), nil
	}
	if isParquet, err := parquetMagic(path); err != nil {
		return nil, err
	} else if isParquet {
		return openParquet(path, o)
	}
	in, err := openStream(path, warn)
	if err != nil {
		return nil, err
	}
	return newLines(path, in, buf, o), nil
}

// textIn is what lines are read from.
type textIn interface {
	io.Reader
	Close()
}

// lines are the rows of a text. Comment lines before the first row are skipped.
type lines struct {
	*lineReader
	in       textIn
	opts     *Options
	begun    bool // no comment line can come any more
	comments int  // lines that were skipped
}

func newLines(path string, in textIn, buf []byte, o *Options) *lines {
	rows := o.Schema != nil && strings.HasPrefix(o.Schema.separator(), "#") // what begins with # are empty cells
	return &lines{lineReader: newLineReader(path, in, buf, o.MaxLine), in: in, opts: o, begun: rows}
}

func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.lineReader.next()
		if err != nil || l.begun || !isComment(line) {
			l.begun = l.begun || err == nil
			return line, err
		}
		if e := refuseComment(line, l.opts); e != nil {
			return nil, e.at(l.path, l.line)
		}
		l.comments++
	}
}

func (l *lines) number() int   { return l.line }
func (l *lines) columns() bool { return false }
func (l *lines) Close()        { l.in.Close() }

// packed reports whether the file is compressed that the rows come from.
func packed(in rows) bool {
	l, ok := in.(*lines)
	if !ok {
		return false
	}
	switch from := l.in.(type) {
	case *stream:
		return from.kind != ""
	case *piped:
		f, err := os.Open(from.path)
		if err != nil {
			return false
		}
		defer f.Close()
		kind, _ := packingOf(bufio.NewReader(f))
		return kind != ""
	}
	return false
}
