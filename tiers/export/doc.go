// Package export makes of a trained model what others read: a model for
// inference, plain text, or tensors; and a model again of the text.
//
// It owns which rows and which of their floats go out, the names and contents of
// the files, and the checks between them. The formats are those of the packages
// below it: inference, text, safetensors, with quant for what is stored in fewer
// bytes, and outdir for a directory that is replaced as a whole. It must not know
// where a model was trained, what it computes, or the network.
//
// The life of an export: Write opens nothing; it takes a model that package ckpt
// has opened (the newest generation of a history, with its deltas merged), and for
// each table reads the rows, brings them to what a pull would give (a row whose
// vector is not yet extended has zeros there), leaves out what the lifecycle's
// rules would not serve, encodes, sorts in bounded memory, and writes one file. A
// dense vector is a file, too. Then the directory takes the old one's place.
//
// The life of a reader: Open maps an inference model, whatever its size, in the
// time of opening its files. Verify reads all of any export. Import makes a model
// of text.
//
// Equal models give equal exports, byte for byte, whatever the number of servers
// that trained them and the order in which their rows came.
package export
