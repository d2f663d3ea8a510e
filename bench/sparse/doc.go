// Package sparse measures pulls and pushes of embedding rows between two
// processes of one machine: through a real server and client of psrt, through
// the classic design of bench/rival over the same kind of wire, and, as the
// limit, by the table's own loops inside one process.
//
// It owns the load (which rows, in which batches), the order in which the
// three take turns, and the check that all three end with the same rows. It
// must not know flags or how reports are shown.
//
// The life of one run: Run starts the program again as a child, whose body is
// Serve: a psrt server and a rival with empty tables. Rows are made on all
// sides by pulling them once. A round then plays the same batches through
// each: pull, put in gradients, push by the ticket of the pull. The medians
// over the rounds are the rows of the report. In the end a sample of rows is
// pulled from all three and must be equal bit for bit.
package sparse
