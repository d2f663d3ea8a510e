// Package calibrate measures what pieces of psrt train's work cost a core of this
// machine, and holds predictions of sched/plan against runs that were not measured
// before.
//
// It owns the generated data and the list of runs. It must not know how a prediction
// is made: samples go to plan.Fit, descriptions to plan.Predict.
//
// The life of one measurement: data are drawn once; each configuration is trained for
// one pass and for three, by psrt train's own processes over shared memory; the
// difference is some passes without the start, in core-seconds of worker and server.
// Core-seconds, not the time on the wall: others on the machine change them little.
package calibrate
