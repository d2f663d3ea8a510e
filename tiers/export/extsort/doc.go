// Package extsort sorts records of one size by a 64-bit number, in bounded
// memory.
//
// It owns runs, their file, and the merge. It must not know what records mean.
// Exports use it because the order in which a model's rows are stored is an
// accident of its training, and an export should be the same file whenever the
// model is the same: the mapped format is laid out by hash, text by key.
//
// The life of one sort: Add takes records until the memory is full; then they
// are sorted and appended to a file as a run, and memory is free again. Each
// calls its function for all records in order, merging the runs through a heap;
// it may be called several times. Numbers must be distinct: a second record of
// the same number is an error that Each returns. What fits into memory never
// touches the disk. Close removes the file, which a crash leaves where it was
// made: the caller's directory for unfinished things.
package extsort
