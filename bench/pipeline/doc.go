// Package pipeline measures how well a worker's line (sched/pipe) overlaps reading,
// the link and computing, and what each kind of consistency makes of stragglers.
//
// It owns stages that take a given time, with jitter, and share no core: they sleep, and
// the link moves one step's bytes at a time. Over a link of its own, and
// between stragglers for real, values are a server's (sched/server). It must not know
// models, but for the job with which it shows that BSP gives the model of one process.
//
// The life of one run: for each jitter and each stage as the slowest, a reader, a link
// and a line run some steps; the time of a step is held against what the slowest stage
// by itself took in the same run. With stragglers, workers whose steps take log-normal
// times ask the clocks of sched/clock, in virtual time, for BSP, SSP, ASP and a bound that
// moves; for real, workers with connections ask
// a server for rows, and only their computing sleeps. A line over a link runs in the station, a
// process in a namespace of its own, with the server's process at the other end of a cable;
// and small jobs in this process compare digests; with dense ranks they tell how much
// of the time ranks of either kind compute.
package pipeline
