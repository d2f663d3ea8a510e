package trainreport

import (
	"strings"
	"testing"
	"time"

	"psrt/sched/train"
	"psrt/sched/train/metric"
)

func TestWrite(t *testing.T) {
	auc, loss := 0.8912, 0.3261
	res := &train.Result{AUC: &auc, LogLoss: &loss, EvaluatedOn: "test", BestEpoch: 1, Servers: 2, Workers: 2, Transport: "shm", Sync: "bsp",
		Epochs:    []train.Epoch{{Epoch: 1, Train: &metric.Report{AUC: &auc, LogLoss: &loss}, Valid: &metric.Report{AUC: &auc}, Seconds: 1.5, Rows: 10, Best: true}},
		Transfers: []string{"worker 0 to server 0: <shm>"}, Digest: "ab12"}
	var b strings.Builder
	if err := Write(&b, Page{Title: "a <b> job", When: time.Unix(0, 0), Result: res, Job: &train.Job{Data: []string{"x&y"}}}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"0.8912", "0.3261", "a &lt;b&gt; job", "&lt;shm&gt;", "x&amp;y", "ab12", "<svg"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got, "http://") || strings.Contains(got, "https://") {
		t.Error("the page refers to the network")
	}
}
