package dataset

import (
	"bytes"
	"io"
)

const (
	blockBytes     = 512 << 10
	defaultMaxLine = 4 << 20
)

// lineReader cuts a decompressed stream into lines. Blank lines are skipped but
// numbered; a byte order mark and carriage returns before line ends are dropped.
type lineReader struct {
	path    string
	in      io.Reader
	buf     []byte
	pos     int // of the next line
	end     int // of what is read
	line    int // number of the line last returned, from 1
	maxLine int
	eof     bool
	begun   bool
}

func newLineReader(path string, in io.Reader, buf []byte, maxLine int) *lineReader {
	if maxLine <= 0 {
		maxLine = defaultMaxLine
	}
	if len(buf) == 0 {
		buf = make([]byte, blockBytes)
	}
	return &lineReader{path: path, in: in, buf: buf, maxLine: maxLine}
}

// next returns the next line that is not blank, without its line end, valid
// until the next call. At the end of the stream it returns io.EOF.
func (r *lineReader) next() ([]byte, error) {
	for {
		i := bytes.IndexByte(r.buf[r.pos:r.end], '\n')
		if i < 0 {
			if !r.eof {
				if err := r.fill(); err != nil {
					return nil, err
				}
				continue
			}
			if r.pos == r.end {
				return nil, io.EOF
			}
			i = r.end - r.pos // a last line without its newline
		}
		line := r.buf[r.pos : r.pos+i]
		r.pos = min(r.pos+i+1, r.end)
		r.line++
		if len(line) > r.maxLine {
			return nil, r.tooLong()
		}
		if len(line) > 0 && line[len(line)-1] == '\r' {
			line = line[:len(line)-1]
		}
		if !blank(line) {
			return line, nil
		}
	}
}

const fillBytes = 3 // a byte order mark, which is dropped whole

// fill moves the unfinished line to the front and reads what there is.
func (r *lineReader) fill() error {
	if r.end-r.pos > r.maxLine {
		r.line++
		return r.tooLong()
	}
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.pos, r.end = 0, r.end-r.pos
	}
	if r.end == len(r.buf) {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	for had := r.end; r.end < len(r.buf) && !r.eof && (r.end == had || !r.begun && r.end < fillBytes); {
		n, err := r.in.Read(r.buf[r.end:])
		r.end += n
		if err == io.EOF {
			r.eof = true
		} else if err != nil {
			return err
		}
	}
	if !r.begun {
		r.begun = true
		if bytes.HasPrefix(r.buf[:r.end], []byte("\xef\xbb\xbf")) {
			r.pos = 3
		}
	}
	return nil
}

func (r *lineReader) tooLong() error {
	e := &Error{Path: r.path, Line: r.line}
	e.Msg = "line longer than the limit of " + bytesText(int64(r.maxLine)) +
		"; is this a text file with line ends? If it is, cut its rows into shorter ones"
	return e
}

func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
