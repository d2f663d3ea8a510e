package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"psrt/sched/pipe"
	"psrt/sched/psmsg"
	"psrt/sched/usage"
)

// Worker is a worker's present state.
type Worker struct {
	Examples          int64  // trained
	Steps             uint64 // steps begun
	IO, Comm, Compute float64
	KeysOut, GradsOut uint64 // bytes copied into request slots
	// Settled by the worker itself: steps pulled ahead, threads that read and compute.
	Depth, ReadThreads, ComputeThreads int
	Calls                              map[psmsg.Kind]usage.Counts
	Pipeline                           pipe.Summary // in seconds, as the worker's line has it
}

var (
	workerExamples = counter("psrt_worker_examples_total", "Examples that this worker has trained on.")
	workerStep     = counter("psrt_worker_steps_total", "Steps that this worker has begun.")
	workerStage    = counter("psrt_worker_stage_seconds_total", "Time that a stage was busy: io (read, parse, number), comm (wait for values and for room to push), compute.", "stage")
	workerDepth    = gauge("psrt_worker_depth", "Steps that are pulled ahead, as the worker has settled.")
	workerThreads  = gauge("psrt_worker_threads", "Threads of a stage (read, compute), as the worker has settled.", "stage")
	lineBusy       = counter("psrt_worker_pipeline_busy_seconds_total", "Time in which at least one step was in a stage (read, announce, pull, compute, push).", "stage")
	lineSteps      = counter("psrt_worker_pipeline_step_seconds_total", "Time that steps were in a stage, all added up: several may be in it at once.", "stage")
	lineWaits      = counter("psrt_worker_pipeline_wait_seconds_total", "Time that computing stood still: for input, for values (pulls), for room to push.", "for")
	lineQueued     = counter("psrt_worker_pipeline_queue_seconds_total", "Time that steps' values were here and waited to be computed, all added up.")
	lineOverlap    = gauge("psrt_worker_pipeline_overlap", "Part of reading and pulling that has not kept the worker from computing, since it began: 1 where all of it is hidden.")
	workerCopied   = counter("psrt_worker_copied_bytes_total", "Payload copied into request slots, which small requests carry along.", "what")
	workerCalls    = metric{prometheus.NewDesc("psrt_worker_call_seconds", "From a pull's or push's first request to its last answer, over all lanes, as noticed by the worker.", []string{"kind"}, nil), 0}
)

type workerCollector func() Worker

func (workerCollector) Describe(chan<- *prometheus.Desc) {}

func (read workerCollector) Collect(ch chan<- prometheus.Metric) {
	w, out := read(), sink(ch)
	out.put(workerExamples, float64(w.Examples))
	out.put(workerStep, float64(w.Steps))
	out.put(workerStage, w.IO, "io")
	out.put(workerStage, w.Comm, "comm")
	out.put(workerStage, w.Compute, "compute")
	out.put(workerDepth, float64(w.Depth))
	out.put(workerThreads, float64(w.ReadThreads), "read")
	out.put(workerThreads, float64(w.ComputeThreads), "compute")
	out.put(workerCopied, float64(w.KeysOut), "keys")
	out.put(workerCopied, float64(w.GradsOut), "gradients")
	out.line(w.Pipeline)
	for kind, c := range w.Calls {
		out.durations(workerCalls, c, kind.String())
	}
}

func (s sink) line(p pipe.Summary) {
	for _, st := range p.Stages {
		s.put(lineBusy, st.Seconds, st.Name)
		s.put(lineSteps, st.Sum, st.Name)
	}
	s.put(lineWaits, p.WaitInput, "input")
	s.put(lineWaits, p.WaitValues, "values")
	s.put(lineWaits, p.WaitPush, "push")
	s.put(lineQueued, p.QueuedSum)
	s.put(lineOverlap, pipe.Merge([]pipe.Summary{p}, 1).Overlap()) // of shares: here of one second
}
