package trainreport

import (
	"strings"
	"testing"
	"time"

	"psrt/sched/pipe"
	"psrt/sched/psmsg"
	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// A page has no AUC of one class, says of how many rows each figure is, and repeats warnings.
func TestWriteOneClass(t *testing.T) {
	loss := 0.3261
	res := &train.Result{LogLoss: &loss, EvaluatedOn: "valid", Evaluated: 77, Warnings: []string{"no <AUC> here"}}
	var b strings.Builder
	if err := Write(&b, Page{Title: "a job", When: time.Unix(0, 0), Result: res}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"AUC<b>-</b>", "on 77 rows of valid data", "no &lt;AUC&gt; here"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestWrite(t *testing.T) {
	auc, loss := 0.8912, 0.3261
	res := &train.Result{AUC: &auc, LogLoss: &loss, EvaluatedOn: "test", BestEpoch: 1, Servers: 2, Workers: 2, Transport: "shm", Sync: "bsp",
		Epochs:   []train.Epoch{{Epoch: 1, Train: &metric.Report{AUC: &auc, LogLoss: &loss}, Valid: &metric.Report{AUC: &auc}, Seconds: 1.5, Rows: 10, Best: true}},
		Pipeline: pipe.Summary{Depth: 3, Stages: []pipe.Stage{{Name: "read", Busy: .25}, {Name: "pull", Busy: .5, Mean: .0125}}},
		ServerUse: []psmsg.StatsReply{{Rows: 7, Flows: []psmsg.FlowStats{{Worker: 0, InBytes: 3e6}, {Worker: 1, InBytes: 1e6}},
			Tables: []psmsg.TableStats{{Tiers: &psmsg.TierStats{RowsInMemory: 5, Hits: 9, Misses: 1}}}}},
		Heter:     &train.HeterUse{DenseRanks: 2, BytesUp: 7.25e6, WorkersBusy: .125, DenseBusy: .625, Transports: []string{"worker 0 to dense rank 1: tcp"}, Layers: []string{"dense rank 0 computes its layers on GPU 3"}},
		Transfers: []string{"worker 0 to server 0: <shm>"}, Digest: "ab12"}
	curve := []train.Progress{{Examples: 10, Loss: .5, AUC: &loss}, {Examples: 20, Loss: .4, AUC: &auc}}
	var b strings.Builder
	if err := Write(&b, Page{Title: "a <b> job", When: time.Unix(0, 0), Result: res, Job: &train.Job{Data: []string{"x&y"}}, Curve: curve}); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"0.8912", "0.3261", "a &lt;b&gt; job", "&lt;shm&gt;", "x&amp;y", "ab12", "<svg", "loss while training", "3 step(s) pulled ahead", "12.50", "memory 90.00 %", "2 dense rank(s)", "62.5 %", "7.2 MB of activations", "dense rank 1: tcp", "layers on GPU 3", "width:75.0%"} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(got, "http://") || strings.Contains(got, "https://") {
		t.Error("the page refers to the network")
	}
}
