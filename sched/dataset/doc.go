// Package dataset turns files of training examples into the leaves of global
// batches. It owns the file formats (criteo, libsvm, libffm, libfm, csv and
// Parquet by a schema, what a user's command makes of a file), their compression,
// the numbering of rows, and the dealing of rows to workers. It must not know
// models, servers or networks.
//
// The life of one epoch in queue mode:
//
//	Open      expands paths, looks at the first rows of every file, decides the
//	          format and the number of fields; most bad input is refused here
//	scanner   one goroutine reads the whole stream, file after file, and finds
//	          line ends; the text of own leaves is copied to leaf tasks, all
//	          else is only counted, so that every worker agrees on row numbers
//	parsers   Threads goroutines turn leaf tasks into rows; they share nothing
//	Next      hands out steps in order, each when all its leaves are parsed
//	Release   returns a step's memory; a step kept longer is left to the
//	          garbage collector, never overwritten
//
// Memory mode runs the same pipeline once, keeps the rows, and serves every
// epoch from there. In a global shuffle readers keep their shares of the rows and ask
// each other for those that an epoch deals them (Parts), some steps ahead.
//
// A stream (NewStream) has no files of its own: a Feed says, entry by entry, which
// file or which of its rows come next, and where steps and passes end. Readers of one
// feed agree on every step, whoever decides the entries; a Cursor is a place to go on
// from. A Watch finds files that are whole.
//
// Bounds: at most aheadSteps steps are parsed ahead of the consumer; a leaf's
// text is at most its rows times the longest line allowed (Options.MaxLine).
package dataset
