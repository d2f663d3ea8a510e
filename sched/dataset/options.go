package dataset

import (
	"time"

	"psrt/sched/usage"
)

// Format names a file format. Auto asks Open to find out.
type Format string

const (
	Auto   Format = "auto"
	Criteo Format = "criteo" // label, 13 integers, 26 hexadecimal categories, tab separated
	LibSVM Format = "libsvm" // label id:value ...
	LibFFM Format = "libffm" // label field:id:value ...
	LibFM  Format = "libfm"  // the grammar of libsvm, customarily with real labels
	CSV    Format = "csv"    // columns described by a Schema
)

// Task decides which labels are legal: 0/1 or -1/1 for CTR (both arrive as 0
// and 1), any finite real for Regression.
type Task string

const (
	CTR        Task = "ctr"
	Regression Task = "regression"
)

// Options say how to read files. The zero value reads ctr data of any format
// but csv.
type Options struct {
	Format  Format  // "" and Auto: found from the first lines
	Task    Task    // "" is CTR
	Fields  int     // number of fields; 0: the most found while sniffing
	Schema  *Schema // for csv
	MaxLine int     // longest line accepted, in bytes; 0: 4 MiB
	// Pipe is a command for /bin/sh through which every file is read: the file is its
	// stdin, as it lies there, and what it writes to stdout are the rows. PipeTimeout is
	// how long it may give nothing, 0: DefaultPipeTimeout.
	Pipe        string        `json:",omitempty"`
	PipeTimeout time.Duration `json:",omitempty"`

	// IgnoreLabels takes rows with any label, and rows without: sparse lines
	// that begin with a feature, criteo lines of 39 columns, csv files without
	// the label's column. All labels arrive as 0.
	IgnoreLabels bool `json:",omitempty"`
}

// ReaderOptions say how one worker runs through a source.
type ReaderOptions struct {
	Threads  int    // parsing goroutines; 0: 1
	Limit    *Limit // of those that parse at once; nil: all may
	Mode     string // "queue" (default): read anew every epoch; "memory": parsed once and kept
	Shuffle  bool   // rows change places inside their virtual partition, a different way each epoch
	Global   bool   // memory mode with Shuffle: each row may come to any place of the epoch
	Parts    *Parts // of Global, where this reader has not all leaves
	Seed     uint64 // of the shuffle
	MaxBytes int64  // memory mode: most bytes of parsed rows; 0: half of what the machine has available
	Window   int    // queue mode with Shuffle: batches shuffled together; 0: 16
	// Busy runs while the reader reads, parses or copies rows, in any of its
	// goroutines, and stands while all of them wait. May be nil.
	Busy *usage.Clock
	// Begun is called by each goroutine that reads files, by the one that scans them
	// (scans) and those that make rows of the text. May be nil.
	Begun func(scans bool)
	// Note is called by the goroutine that scans a stream's files where one is read in another way
	// than the one before: without a header, or behind comment lines. May be nil.
	Note func(note string)
}

// begun is Begun.
func (o *ReaderOptions) begun(scans bool) {
	if o.Begun != nil {
		o.Begun(scans)
	}
}

// Description is what Open learned.
type Description struct {
	Format      Format
	Fields      int
	FieldNames  []string // one for every field
	MeanLabel   float64  // over the sniffed rows
	SniffedRows int
	Files       []string // in reading order
	Bytes       int64    // on disk, compressed as they are
	Notes       []string // on how files are read, for people: skipped files, no header, comment lines
}
