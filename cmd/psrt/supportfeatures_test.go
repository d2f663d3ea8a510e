package main

import (
	"path/filepath"
	"strings"
	"testing"

	"psrt/sched/train"
)

// Features that others are held against which do not change the model.
const (
	plainFeature = "fm"
	deepFeature  = "allreduce-deep"
	lifeFeature  = "lifecycle"
)

// features are the rows of the page.
func features() []*supported {
	return []*supported{
		{name: plainFeature},
		{name: "lr", flags: "--model lr"},
		{name: "widedeep", flags: "--model widedeep --hidden 16,8"},
		{name: "deepfm", flags: "--model deepfm --hidden 16,8 --dropout 0.1 --batch-norm"},
		{name: "dcn", flags: "--model dcn --hidden 16 --cross-layers 2"},
		{name: "sgd", flags: "--optimizer sgd"},
		{name: "adagrad", flags: "--optimizer adagrad"},
		{name: "rowadagrad", flags: "--optimizer rowadagrad"},
		{name: "ftrl", flags: "--optimizer ftrl --l1 0.001"},
		{name: "regression", flags: "--task regression", check: isRegression},
		{name: "layout", ranks: "--servers 1 --workers 3 --threads 2 --lanes 2", like: plainFeature, parts: 2},
		{name: "colocate", ranks: "--colocate --servers 2", like: plainFeature},
		{name: "memory-shuffled", flags: "--dataset memory --epochs 2", passes: 2},
		{name: "global-shuffle", flags: "--dataset memory --global-shuffle --epochs 2", passes: 2},
		{name: "stream", data: "DIR/data/in", flags: "--stream --stream-settle 50ms --stream-idle 400ms --pass 1600", check: hasPasses},
		{name: "pipe-command", flags: "--pipe-command cat", like: plainFeature},
		{name: "sharding-dynamic", flags: "--sharding dynamic --no-shuffle"},
		{name: "table-sync", flags: "--table-sync dense=bsp,embedding=ssp:2", varies: true},
		{name: "staleness-range", flags: "--staleness 1-3", check: movesBound},
		{name: "valid-out", flags: "--valid DIR/data/rows.libffm --epochs 2 --out DIR/model", passes: 2, check: evaluates},
		{name: "allreduce", flags: "--dense allreduce", like: plainFeature},
		{name: deepFeature, flags: "--dense allreduce --model deepfm --hidden 16,8"},
		{name: "heter", ranks: "--servers 2 --workers 2 --heter", flags: "--model deepfm --hidden 16,8", like: deepFeature, check: isHalved},
		{name: "fp16", flags: "--compress fp16", check: isPacked},
		{name: "int8", flags: "--compress int8", check: isPacked},
		{name: "topk", flags: "--compress topk:0.5", varies: true, check: isPacked},
		{name: "auto", flags: "--compress auto", varies: true},
		{name: "clip", flags: "--clip-norm 1 --clip-value 1"},
		{name: "hot-rows", flags: "--hot-rows 100 --hot-staleness 2 --batch 40", check: keepsRows},
		{name: "replicas", flags: "--replicas 2 --allow-same-host --groups 2", parts: 2, like: plainFeature},
		{name: "read-any", flags: "--replicas 2 --allow-same-host --groups 2 --read any", parts: 2, like: plainFeature},
		{name: "groups", flags: "--groups 4", parts: 4, like: plainFeature},
		{name: lifeFeature, flags: "--accessor DIR/data/life.yaml", check: hasLife},
		{name: "serving", flags: "--accessor DIR/data/life.yaml --serving DIR/served", check: serves},
		{name: "checkpoint", flags: "--checkpoint DIR/history --checkpoint-every 5steps", like: plainFeature, check: resumes},
		{name: "audit", flags: "--audit DIR/record", like: plainFeature, check: isAudited},
		{name: "mixed", flags: "--dense mixed --model deepfm --hidden 16,8", like: deepFeature, check: isMixed},
		{name: "mixed-resumed", flags: "--dense mixed --model deepfm --hidden 16,8 --checkpoint DIR/history --checkpoint-every 5steps", like: deepFeature, check: resumes},
		{name: "mixed-lifecycle", flags: "--dense mixed --accessor DIR/data/life.yaml", like: lifeFeature, check: hasLife},
		{name: "combine", flags: "--combine host", like: plainFeature, check: isCombined},
		{name: "merge-pushes", flags: "--merge-pushes 2", check: isMerged},
		{name: "combine-allreduce", flags: "--combine host --dense allreduce --model deepfm --hidden 16,8", like: deepFeature, check: isCombined},
	}
}

// elsewhere is what takes more commands than one, which tests of its own give.
type elsewhere struct {
	what, commands string
	tests          []func(*testing.T)
}

func triedElsewhere() []elsewhere {
	return []elsewhere{
		{"workers of one host add dense gradients first", "psrt train --dense allreduce --host-label H …, rank by rank", []func(*testing.T){TestAllReduceOnHosts}},
		{"dense gradients are added by NCCL, on a GPU at each worker (a fake driver and a fake NCCL)", "psrt train --dense allreduce --collective nccl", []func(*testing.T){TestCollectiveNCCL}},
		{"a server's rows are spread over several GPUs (a fake driver's)", "psrt train --hbm-budget 4MiB --hbm-device 0,1,2,3", []func(*testing.T){TestSpreadOverCards}},
		{"dense ranks compute on an accelerator (its kernels as C, and a fake driver's)", "psrt train --heter --dense-device gpu", []func(*testing.T){TestDenseDevice, TestDenseDeviceDies}},
		{"rows of trainers of your own in a device's memory (its twin's), with replicas too", "psrt serve --hbm-budget 4MiB --hbm-device host", []func(*testing.T){TestServeOnDevice}},
		{"workers of one host pull and push as one", "psrt train --combine host --host-label H …, rank by rank", []func(*testing.T){TestCombinedOnHosts, TestCombinedWorkersDie, TestCombinedWorkersAreReplaced, TestCombinedHostBeginsAgain}},
		{"predict and eval over ranks, from a model and from a running server", "psrt predict --workers N [--servers N | --live ADDR] …", []func(*testing.T){TestPredictOverRanks, TestPredictByHand}},
		{"ids and vectors for an index, over ranks", "psrt predict --emit NAME …", []func(*testing.T){TestPredictEmits}},
		{"trainers of your own, recorded and judged", "psrt serve --audit DIR …; psrt audit DIR", []func(*testing.T){TestServeAudit}},
		{"a card that fails in the middle of a training (a fake driver's), with replicas and without: its rows are made again in memory", "psrt train --hbm-budget 2MiB", []func(*testing.T){TestCardFails}},
	}
}

func isRegression(t *testing.T, r *supportRun) {
	if r.res.RMSE == nil || *r.res.RMSE > .6 || r.res.AUC != nil {
		t.Errorf("RMSE %v, AUC %v", r.res.RMSE, r.res.AUC)
	}
}

func hasPasses(t *testing.T, r *supportRun) {
	if want := (supportRows + 1599) / 1600; len(r.res.Epochs) != want {
		t.Errorf("%d passes, want %d", len(r.res.Epochs), want)
	}
}

// evaluates: the model that was written gives the figures that training gave.
func evaluates(t *testing.T, r *supportRun) {
	o := psrt(t, "eval", "--model", filepath.Join(r.dir, "model"), "--data", filepath.Join(r.data, "rows.libffm"), "--json")
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	if got := resultOf(t, o.stdout); got.AUC == nil || *got.AUC != *r.res.AUC {
		t.Errorf("evaluated, AUC is %v; trained, %v", got.AUC, *r.res.AUC)
	}
}

// isMixed: both ways were measured, and one of the shares that there are was chosen.
func isMixed(t *testing.T, r *supportRun) {
	if d := r.res.DenseSums; d == nil || d.Mixed == nil || d.Mixed.Measured.Servers <= 0 || d.Mixed.Measured.Reduce <= 0 || d.Mixed.Share < 0 || d.Mixed.Share > 1 {
		t.Errorf("the dense sums: %+v", d)
	}
}

// isHalved: activations went up, and gradients came down.
func isHalved(t *testing.T, r *supportRun) {
	if h := r.res.Heter; h == nil || h.BytesUp == 0 || h.BytesDown == 0 {
		t.Errorf("heter: %+v", h)
	}
}

// isCombined: one worker asked for both, and sent fewer rows than both had.
func isCombined(t *testing.T, r *supportRun) {
	if c := r.res.Combined; c == nil || len(c.Hosts) != 1 || c.RowsPulled >= c.RowsAsked || c.RowsPushed >= c.RowsGiven {
		t.Errorf("combined: %+v", c)
	}
}

// isMerged: rows went with those of a later step, and none are left.
func isMerged(t *testing.T, r *supportRun) {
	if u := r.res.Compress; u == nil || u.Merge == nil || u.Merge.Merged == 0 || u.Merge.Rows == 0 || u.KeptRows > 0 {
		t.Errorf("compression: %+v", u)
	}
}

func movesBound(t *testing.T, r *supportRun) {
	for _, s := range r.res.TableSync {
		if s.Mode != "ssp:1-3" || s.Bound < 1 || s.Bound > 3 {
			t.Errorf("a bound of 1 to 3: %+v", s)
		}
	}
	if len(r.res.TableSync) != 2 {
		t.Errorf("of tables %+v", r.res.TableSync)
	}
}

func isPacked(t *testing.T, r *supportRun) {
	if u := r.res.Compress; u == nil || u.PackedBytes == 0 || u.PackedBytes >= u.FloatBytes {
		t.Errorf("compression: %+v", u)
	}
}

func keepsRows(t *testing.T, r *supportRun) {
	for _, u := range r.res.Ranks {
		if u.Hot != nil && u.Hot.Kept > 0 {
			return
		}
	}
	t.Errorf("no worker has kept a row: %+v", r.res.Ranks)
}

func hasLife(t *testing.T, r *supportRun) {
	if l := r.res.Life; l == nil || l.Rows == 0 || l.Extended == 0 || l.Extended >= l.Rows {
		t.Errorf("lifecycle: %+v", l)
	}
}

func serves(t *testing.T, r *supportRun) {
	hasLife(t, r)
	if s := r.res.Life.Serving; s == nil || s.Bases == 0 || s.Failed > 0 {
		t.Errorf("serving: %+v", s)
	}
}

// resumes: the snapshots are whole, and going on behind the end changes nothing.
func resumes(t *testing.T, r *supportRun) {
	if o := psrt(t, "checkpoint", "verify", filepath.Join(r.dir, "history")); o.code != 0 {
		t.Errorf("verify: %s", o.stderr)
	}
	o := psrt(t, append(r.args, "--resume")...)
	if o.code != 0 {
		t.Fatalf("resumed: %s", o.stderr)
	}
	if again := resultOf(t, o.stdout); r.res.Checkpoints.Written == 0 || r.res.Sync == train.BSP && again.Digest != r.res.Digest {
		t.Errorf("%+v; resumed, the digest is %s, was %s", r.res.Checkpoints, again.Digest, r.res.Digest)
	}
}

func isAudited(t *testing.T, r *supportRun) {
	if o := psrt(t, "audit", filepath.Join(r.dir, "record")); o.code != 0 || strings.Contains(o.stdout, "nothing") {
		t.Errorf("exit %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
