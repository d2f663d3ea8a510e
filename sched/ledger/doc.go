// Package ledger says which worker reads which range of which file: each range goes to
// one worker, once, whoever asks first.
//
// It owns the policy and the book; it is pure, and whoever keeps the book (a key at the
// coordinator, changed by compare-and-put) calls Take on a copy and puts that back. It
// must not know files' names or lengths, rows, or where the book is kept.
//
// How long a file is, nobody knows before it has been read: a worker finds out that a
// file has ended when a range of it has fewer rows than it may, or none, and says so
// with its next Take. Ranges of that file that were given meanwhile are empty.
//
// The life of a pass:
//
//	Take(worker, n)    its range number n: the next of the file that it is in; else of a
//	                   file that nobody has begun; else of the begun file in which the
//	                   fewest workers are. So files are shared only when there are fewer
//	                   left than workers, and a slow worker takes fewer ranges.
//	Take(worker, n) again gives the same: a worker whose process has died goes on where
//	                   the ranges that were written down for it end, and a put that may
//	                   or may not have happened may be made again.
//	no range           all files have ended, or their ends are with other workers
//
// Bounds: the book has an entry for each file that is begun and not known to have
// ended, at most one a worker and those that others took over; and one a worker.
package ledger
