package dataset

import (
	"bytes"
	"fmt"
	"strings"
)

// refuse says why the head of a file is no text that can hold rows, or "".
func refuse(head []byte) string {
	for _, m := range []struct{ magic, what string }{
		{"BZh", "bzip2-compressed"}, {"\xfd7zXZ", "xz-compressed"}, {"PK\x03\x04", "a zip archive"},
		{"\x93NUMPY", "a NumPy array"}, {"\x89HDF", "an HDF5 file"},
	} {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return fmt.Sprintf("the file is %s; plain text and gz, zst, lz4 can be read, convert it", m.what)
		}
	}
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return "the file is UTF-16 text; convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
	}
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f' {
			return "the file is binary, not text; give files of rows, plain or compressed with gz, zst or lz4"
		}
	}
	return ""
}

// detect tells the format of one line: "" where it fits none, and undecided
// where it has a label and nothing else. LibSVM stands for LibFM too.
func detect(line []byte) Format {
	if bytes.Count(line, []byte("\t")) == criteoColumns-1 {
		return Criteo
	}
	words := bytes.Fields(line)
	if len(words) == 0 {
		return ""
	}
	if _, err := parseFloat(words[0]); err != nil {
		return ""
	}
	if len(words) == 1 {
		return undecided
	}
	switch bytes.Count(words[1], []byte(":")) {
	case 1:
		return LibSVM
	case 2:
		return LibFFM
	}
	return ""
}

const undecided Format = "undecided"

// detectAll decides by the first line that says anything.
func detectAll(lines [][]byte) Format {
	for _, line := range lines {
		if f := detect(line); f != undecided {
			return f
		}
	}
	if len(lines) > 0 {
		return undecided
	}
	return ""
}

// unknownFormat is the message for a first line that fits no format.
func unknownFormat(line []byte) string {
	const known = "known without a schema are criteo (40 columns, tabs), libsvm/libfm (label id:value) and libffm (label field:id:value)"
	best, most := "", 1
	for _, sep := range []string{"\t", ",", ";", "|"} {
		if n := bytes.Count(line, []byte(sep)); n >= most {
			best, most = sep, n+1
		}
	}
	if best == "" {
		return fmt.Sprintf("the format of %s is not recognised; %s", quote(line), known)
	}
	cells := strings.Split(string(line), best)
	return fmt.Sprintf("the format is not recognised; %s. This line has %d cells separated by %q: if it is csv, give --schema FILE.yaml (separator: %q, and columns: a list of name and kind for the %d columns)",
		known, len(cells), best, best, len(cells))
}
