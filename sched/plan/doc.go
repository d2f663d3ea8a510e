// Package plan predicts what a cluster does with a model before anybody buys it: how
// long a step takes, what limits it, and how much of what else would be enough.
//
// It owns the arithmetic: how many distinct rows a batch has (Distinct), what a step
// asks of each resource of each host (Predict), and how the costs of one core come out
// of measured runs (Fit). It must not know how a job is started or measured, files, the
// clock, or the network: a description comes in, a prediction goes out.
//
// # One prediction
//
//	Parse       YAML, every key checked -> Cluster
//	Predict     distinct rows of a worker's batch -> bytes and core-seconds of a step
//	            at each kind of host -> seconds that each resource is busy -> the longest
//	            of them (asp), or the longest way through a step (bsp), or between (ssp)
//	Text        a table for people; Prediction itself is the JSON
//
// What it leaves out, and so what it is wrong by: workers that are not alike, skew
// between servers (placement keeps it below 1.1), stalls of a disk, and the time that a
// scheduler takes where more processes are busy than there are cores.
package plan
