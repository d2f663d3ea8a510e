package gen

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"psrt/sched/dataset"
)

// Config asks for one data set.
type Config struct {
	Kind    string  // "criteo": 13 integers and 26 categories, tab separated; "zipf": libffm with 64-bit ids, one per field
	Rows    int64   // in all parts together
	Fields  int     // zipf: 1 to 1000, 0 is 16; criteo has 39
	Vocab   uint64  // ids in all; 0: criteo 5,000,000, zipf 1,000,000
	Zipf    float64 // exponent of the power law; 0 is 1.1
	Seed    uint64
	Out     string // path; suffix .gz, .zst or .lz4 compresses
	Split   string // "8:1:1" writes NAME.train.EXT, NAME.valid.EXT, NAME.test.EXT; "9:1" train and test; "": one file
	Threads int    // goroutines making rows; 0 is 1
}

// Seen is how often an id must be seen in training to count as learnable.
const Seen = 20

const (
	criteoInts   = 13
	criteoFields = 39
	maxRows      = 1 << 40
	maxVocab     = 1 << 30
	maxZipfField = 1000
)

func (c Config) withDefaults() Config {
	c.Zipf = cmp.Or(c.Zipf, 1.1)
	c.Threads = cmp.Or(c.Threads, 1)
	switch c.Kind {
	case "criteo":
		c.Fields = cmp.Or(c.Fields, criteoFields)
		c.Vocab = cmp.Or(c.Vocab, 5_000_000)
	case "zipf":
		c.Fields = cmp.Or(c.Fields, 16)
		c.Vocab = cmp.Or(c.Vocab, 1_000_000)
	}
	return c
}

func (c Config) validate() error {
	bad := func(format string, args ...any) error {
		return &dataset.Error{Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Kind != "criteo" && c.Kind != "zipf":
		return bad("kind %q is unknown; known are criteo, zipf", c.Kind)
	case c.Rows < 1 || c.Rows > maxRows:
		return bad("%d rows, must be 1 to %d (--rows)", c.Rows, int64(maxRows))
	case c.Kind == "criteo" && c.Fields != criteoFields:
		return bad("%d fields, but criteo rows have %d; leave --fields out or generate zipf", c.Fields, criteoFields)
	case c.Fields < 1 || c.Fields > maxZipfField:
		return bad("%d fields, must be 1 to %d (--fields)", c.Fields, maxZipfField)
	case c.Vocab < uint64(10*c.Fields) || c.Vocab > maxVocab:
		return bad("vocabulary of %d ids, must be %d (10 a field) to %d (--vocab)", c.Vocab, 10*c.Fields, maxVocab)
	case !(c.Zipf >= 0.1 && c.Zipf <= 5):
		return bad("Zipf exponent %v, must be 0.1 to 5 (--zipf)", c.Zipf)
	case c.Out == "":
		return bad("no output file; give --out FILE")
	case c.Threads < 1 || c.Threads > 1024:
		return bad("%d threads, must be 1 to 1024", c.Threads)
	}
	_, err := c.split()
	return err
}

// part is one of the files a data set is split into.
type part struct {
	name  string // train, valid, test; "" for all in one file
	share uint64
}

func (c Config) split() ([]part, error) {
	if c.Split == "" {
		return []part{{share: 1}}, nil
	}
	names := map[int][]string{2: {"train", "test"}, 3: {"train", "valid", "test"}}[1+strings.Count(c.Split, ":")]
	var parts []part
	for i, s := range strings.Split(c.Split, ":") {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 || names == nil {
			return nil, &dataset.Error{Msg: fmt.Sprintf("split %q: must be like 8:1:1 (train, valid, test) or 9:1 (train, test), with whole numbers above 0", c.Split)}
		}
		parts = append(parts, part{names[i], n})
	}
	return parts, nil
}
