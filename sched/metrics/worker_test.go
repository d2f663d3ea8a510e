package metrics

import (
	"maps"
	"testing"

	"psrt/sched/pipe"
)

// Where a worker's line stands is shown stage by stage, in seconds.
func TestPipelineIsShown(t *testing.T) {
	r := NewRank()
	r.Name("worker 0")
	r.Worker(func() Worker {
		return Worker{Pipeline: pipe.Summary{WaitInput: 1, WaitValues: 2, WaitPush: 3, QueuedSum: 7,
			Stages: []pipe.Stage{{Name: "read", Seconds: 4, Sum: 4}, {Name: "pull", Seconds: 8, Sum: 10}, {Name: "compute", Seconds: 90, Sum: 90}}}}
	})
	got, err := r.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]float64{
		"psrt_worker_pipeline_busy_seconds_total":  {"read": 4, "pull": 8, "compute": 90},
		"psrt_worker_pipeline_step_seconds_total":  {"read": 4, "pull": 10, "compute": 90},
		"psrt_worker_pipeline_wait_seconds_total":  {"input": 1, "values": 2, "push": 3},
		"psrt_worker_pipeline_queue_seconds_total": {"": 7},
		"psrt_worker_pipeline_overlap":             {"": .5}, // 6 s of 12 kept it from computing
	} {
		shown := map[string]float64{}
		for _, m := range gathered(t, got, name) {
			label := ""
			for _, l := range m.Label {
				if l.GetName() != RankLabel {
					label = l.GetValue()
				}
			}
			shown[label] = m.Counter.GetValue() + m.Gauge.GetValue()
		}
		if !maps.Equal(shown, want) {
			t.Errorf("%s: %v, want %v", name, shown, want)
		}
	}
}
