// Package whole measures a whole training over a limited link: examples a second of the
// trainer (sched/job), beside a worker of the classic kind on package rival that does the
// same arithmetic, and beside a training whose rows are already local.
//
// It owns the link, the classic worker, the choice of the link's rate, and the checks that
// all sides train the same model. It must not know flags, or how reports are shown.
//
// The life of one run: Run starts the station, a process in a namespace of its own, where
// all workers run. It makes the data and counts what a step moves, trains once with local
// rows, and so knows the rate at which the link takes a given share of a step. It starts
// the server's process behind a cable of that rate. In each round all sides train the same
// rows in the same order, one after the other; before the first, the trainer does so in
// BSP over the link and locally, which must give one digest, and the loss of the rival,
// who is as synchronous.
package whole
