// Package text is a table or a dense vector as plain text that gives every bit
// back.
//
// It owns the format, its versions, and how floats are spelled. It must not know
// models, directories, or the meaning of what is behind the weights.
//
// The life of a file: NewWriter writes the header; Row or Block a line each;
// Close the last line. NewReader reads the header; Rows or Blocks calls a function
// for every line and checks the last one.
//
// # Format 1
//
// Lines end with \n, columns are separated by a tab.
//
//	#psrt-text 1
//	#{"table": …}             one line of JSON: Header
//	#key  w0  w1 …  s0 …      names of the columns; not read again
//	7  0.25  -1e-05 …         a row: its key in decimal, weights, and with state
//	                          what the optimizer (and a lifecycle) keeps
//	#end 1 0f3ab2c4           rows, and CRC-32C in hexadecimal of all bytes before
//
// A dense vector has a line for each block: its first element, the number of its
// values, the values, and with state what the optimizer keeps for the block.
//
// A float is the shortest decimal that reads back as the same float32, as of
// strconv, C's %.9g or Python's repr of a numpy.float32; +Inf and -Inf as that.
// What is no number for people (a NaN other than the usual one, and the words of
// a lifecycle, which hold counters of 64 bits) is x and the 8 hexadecimal digits
// of its bits. Both spellings are read in any column.
//
// Who edits a file by hand shortens its last line to #end: it must be there,
// since without it a file that was cut short would look whole.
package text
