// Package recover measures what a checkpoint costs and how soon a server is back:
// a table is written as a base and as deltas of some of its rows, and loaded
// again from the disk, beside what reading the same files takes.
//
// It owns the load and the arithmetic. It must not know flags, nor the format of
// a checkpoint.
//
// The life of one run: lanes with a table each are filled and cut into a base, a
// share of their rows is changed and cut into a delta, and into a quantised one
// for serving. Then, round by round, the machine forgets the files, the raw rate
// at which they can be read is measured, the time of a restart is predicted from
// it, and new tables are loaded. Their digest must be that of the first ones. A
// store that is loaded has to write what it reads: that is measured and said, too.
package recover
