package trainreport

import (
	"fmt"
	"html/template"
	"io"
	"time"

	"psrt/bench/chart"
	"psrt/sched/train"
	"psrt/sched/train/metric"
)

// Page is what the report shows.
type Page struct {
	Title  string
	When   time.Time
	Result *train.Result
	Job    *train.Job // nil when the ranks were started elsewhere
	// Curve is the training as it went, by examples of all passes; may be empty.
	Curve []train.Progress
}

type view struct {
	Page
	Figures []figure
	Curves  []template.HTML
	Stages  []bar
	Flows   []flow
}

type figure struct{ Name, Value, Note string }

type bar struct {
	Name    string
	Percent float64
}

// Write renders the page.
func Write(w io.Writer, p Page) error {
	r := p.Result
	v := view{Page: p, Flows: flows(r.ServerUse), Stages: []bar{{"io", 100 * r.Stages.IO}, {"comm", 100 * r.Stages.Comm}, {"compute", 100 * r.Stages.Compute}}}
	add := func(name string, value *float64, note string) {
		if value != nil {
			v.Figures = append(v.Figures, figure{name, fmt.Sprintf("%.4f", *value), note})
		}
	}
	of := fmt.Sprintf("on %d rows of %s data", r.Evaluated, r.EvaluatedOn)
	if r.AUC == nil && r.LogLoss != nil {
		v.Figures = append(v.Figures, figure{"AUC", "-", of + ": all labels are the same"})
	}
	add("AUC", r.AUC, of)
	add("logloss", r.LogLoss, of)
	add("RMSE", r.RMSE, of)
	add("COPC", r.COPC, "clicks over predicted clicks")
	v.Figures = append(v.Figures,
		figure{"speed", fmt.Sprintf("%.0f examples/s", r.ExamplesPerS), "training, reading included"},
		figure{"features", fmt.Sprint(r.Features), "rows in the tables"},
		figure{"peak memory", fmt.Sprintf("%d MB", r.PeakRSSBytes/1e6), "largest process"},
		figure{"wall time", fmt.Sprintf("%.1f s", r.WallSeconds), fmt.Sprintf("%d epochs, best %d", len(r.Epochs), r.BestEpoch)})
	add("actual CTR", r.ActualCTR, "")
	add("predicted CTR", r.PredictedCTR, "")
	v.running()
	for _, c := range []struct {
		title string
		pick  func(*metric.Report) *float64
	}{
		{"AUC by epoch", func(m *metric.Report) *float64 { return m.AUC }},
		{"logloss by epoch", func(m *metric.Report) *float64 { return m.LogLoss }},
		{"RMSE by epoch", func(m *metric.Report) *float64 { return m.RMSE }},
	} {
		var lines []chart.Line
		for _, s := range []struct {
			name string
			of   func(train.Epoch) *metric.Report
		}{{"train", func(e train.Epoch) *metric.Report { return e.Train }}, {"valid", func(e train.Epoch) *metric.Report { return e.Valid }}} {
			l := chart.Line{Name: s.name}
			for _, e := range r.Epochs {
				if m := s.of(e); m != nil {
					if y := c.pick(m); y != nil {
						l.Xs, l.Ys = append(l.Xs, float64(e.Epoch)), append(l.Ys, *y)
					}
				}
			}
			if len(l.Xs) > 0 {
				lines = append(lines, l)
			}
		}
		if len(lines) > 0 {
			drawn := chart.Chart{Title: c.title, Lines: lines}
			v.Curves = append(v.Curves, template.HTML(drawn.SVG()))
		}
	}
	return page.Execute(w, v)
}

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"mb":   func(b int64) string { return fmt.Sprintf("%d", b/1e6) },
	"f1":   func(f float64) string { return fmt.Sprintf("%.1f", f) },
	"pc":   func(f float64) string { return fmt.Sprintf("%.1f %%", 100*f) },
	"ms":   func(f float64) string { return fmt.Sprintf("%.2f", 1e3*f) },
	"mega": func(b uint64) float64 { return float64(b) / 1e6 },
	"hits": hits,
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.8rem}
.figures div{border:1px solid #ddd;border-radius:.4rem;padding:.6rem .8rem}
.figures b{display:block;font-size:1.3rem}.figures small,.note{color:#666}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;font-variant-numeric:tabular-nums}
.bar{background:#eee;height:1rem;width:24rem}.bar div{background:#3b6ea5;height:1rem}
svg{max-width:100%;height:auto}code{font-size:.85rem;word-break:break-all}
</style></head><body>
<h1>{{.Title}}</h1>
<p class="note">{{.When.Format "2006-01-02 15:04"}} · {{.Result.Servers}} servers, {{.Result.Workers}} workers of {{.Result.Threads}} threads, {{.Result.Transport}}, {{.Result.Sync}}</p>
{{range .Result.Warnings}}<p><b>Warning:</b> {{.}}</p>{{end}}
<div class="figures">{{range .Figures}}<div>{{.Name}}<b>{{.Value}}</b><small>{{.Note}}</small></div>{{end}}</div>
{{range .Curves}}{{.}}{{end}}
<h2>Where a worker's time went</h2>
<table>{{range .Stages}}<tr><td>{{.Name}}</td><td><div class="bar"><div style="width:{{f1 .Percent}}%"></div></div></td><td>{{f1 .Percent}} %</td></tr>{{end}}</table>
<p class="note">Stages overlap; their shares need not add up to 100 %. {{with .Result.Stages}}Overlap {{pc .Overlap}}: the part of reading and pulling that did not keep a worker from computing.{{end}}</p>
{{with .Result.Pipeline}}{{if .Stages}}<h2>The pipeline</h2>
<table><tr><th>stage</th><th>busy</th><th>a step, mean, ms</th><th>95 %, ms</th></tr>
{{range .Stages}}<tr><td>{{.Name}}</td><td>{{pc .Busy}}</td><td>{{ms .Mean}}</td><td>{{if .P95}}{{ms .P95}}{{end}}</td></tr>{{end}}</table>
<p class="note">{{.Depth}} step(s) pulled ahead{{if .ReadThreads}}, {{.ReadThreads}} thread(s) of a worker reading and {{.ComputeThreads}} computing in the end{{end}}; values waited {{ms .QueueSeconds}} ms to be computed. Computing stood still for input {{pc .WaitInput}}, for values {{pc .WaitValues}}, for room to push {{pc .WaitPush}} of the time.</p>{{end}}{{end}}
<h2>Servers</h2>
<table><tr><th>server</th><th>rows</th><th>pulls</th><th>pushes</th><th>merged</th><th>busy, s</th><th>rows in memory</th><th>hits</th></tr>
{{range .Result.ServerUse}}<tr><td>{{.Server}}</td><td>{{.Rows}}</td><td>{{.Pulls}}</td><td>{{.Pushes}}</td><td>{{.Merged}}</td><td>{{f1 .BusySeconds}}</td>{{with hits .}}<td>{{.Memory}}</td><td>{{.Rate}}</td>{{end}}</tr>{{end}}</table>
{{if .Flows}}<h2>Fan-in</h2><p class="note">What each worker has moved to and from all servers.</p>
<table><tr><th>worker</th><th>pushed, MB</th><th>pulled, MB</th><th>share of what was pushed</th></tr>
{{range .Flows}}<tr><td>{{.Worker}}</td><td>{{f1 .In}}</td><td>{{f1 .Out}}</td><td><div class="bar"><div style="width:{{f1 .Percent}}%"></div></div></td></tr>{{end}}</table>{{end}}
{{with .Result.Heter}}<h2>Dense ranks</h2>
<table><tr><td>workers computed</td><td>{{pc .WorkersBusy}}</td><td>of the time; waited for gradients of activations {{pc .WorkersWait}}</td></tr>
<tr><td>{{.DenseRanks}} dense rank(s) computed</td><td>{{pc .DenseBusy}}</td><td>of the time</td></tr></table>
<p class="note">{{f1 (mega .BytesUp)}} MB of activations, {{f1 (mega .BytesDown)}} MB of their gradients.<br>{{range .Transports}}{{.}}<br>{{end}}{{range .Layers}}{{.}}<br>{{end}}</p>{{end}}
{{with .Result.Storage}}<h2>Rows on disks</h2><p>{{.}}</p>{{end}}
<h2>Epochs</h2>
<table><tr><th>epoch</th><th>seconds</th><th>examples</th><th>validation rows</th><th></th></tr>
{{range .Result.Epochs}}<tr><td>{{.Epoch}}</td><td>{{printf "%.2f" .Seconds}}</td><td>{{.Rows}}</td><td>{{with .Valid}}{{.Counted}}{{end}}</td><td>{{if eq .Epoch $.Result.BestEpoch}}best{{end}}</td></tr>{{end}}</table>
<h2>Ranks</h2>
<table><tr><th>rank</th><th>peak memory, MB</th><th>CPU seconds</th></tr>
{{range .Result.Ranks}}<tr><td>{{.Rank}}</td><td>{{mb .PeakRSSBytes}}</td><td>{{f1 .CPUSeconds}}</td></tr>{{end}}</table>
<p class="note">{{range .Result.Transfers}}{{.}}<br>{{end}}</p>
{{with .Job}}<h2>Job</h2><table>
<tr><td>data</td><td>{{range .Data}}<code>{{.}}</code> {{end}}</td></tr>
<tr><td>model</td><td>{{.Model.Kind}}, dimension {{.Model.Dim}}, hidden {{.Model.Hidden}}</td></tr>
<tr><td>optimizer</td><td>{{.Optimizer.Kind}}, rate {{.Optimizer.LR}}; dense {{.DenseOptimizer.Kind}}, rate {{.DenseOptimizer.LR}}</td></tr>
<tr><td>batch</td><td>{{.Batch}}</td></tr><tr><td>seed</td><td>{{.Seed}}</td></tr></table>{{end}}
<p class="note">digest <code>{{.Result.Digest}}</code></p>
</body></html>
`))
