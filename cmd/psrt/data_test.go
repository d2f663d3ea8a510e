package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"psrt/sched/train"
	"psrt/sched/train/metric"
)

func trainedOn(t *testing.T, args ...string) (res train.Result) {
	t.Helper()
	o := psrt(t, append([]string{"train", "--model", "fm", "--dim", "4", "--batch", "256", "--sync", "bsp", "--workers", "2", "--json"}, args...)...)
	if o.code != 0 {
		t.Fatalf("train %v: exit %d\n%s", args, o.code, o.stderr)
	}
	if err := json.Unmarshal([]byte(o.stdout), &res); err != nil {
		t.Fatalf("%v in %s", err, o.stdout)
	}
	return res
}

// The same rows through a command of the user's, or out of Parquet files, are the same
// model as read as text.
func TestTrainOnOtherFiles(t *testing.T) {
	dir := t.TempDir()
	text := rows(4000, 1)
	plain := write(t, dir, "train.libffm", text)
	odd := write(t, dir, "odd.gz", gz(strings.ReplaceAll(text, ":", "/")))
	want := trainedOn(t, "--data", plain)
	if got := trainedOn(t, "--data", odd, "--pipe-command", "gzip -dc | tr / :"); got.Digest != want.Digest || got.Examples != 4000 {
		t.Errorf("through a command: digest %s of %d rows, want %s", got.Digest, got.Examples, want.Digest)
	}

	type row struct {
		Label int32  `parquet:"label"`
		User  uint64 `parquet:"user"`
		Item  string `parquet:"item"`
	}
	all := make([]row, 4000)
	csv := "label,user,item\n"
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == ':' })
		all[i].Label, all[i].User, all[i].Item = int32(line[0]-'0'), uint64(i%100), f[5]
		csv += fmt.Sprintf("%c,%d,%s\n", line[0], i%100, f[5])
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.MaxRowsPerRowGroup(700))
	if _, err := w.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	schema := write(t, dir, "schema.yaml", "columns:\n  - {name: label, kind: label}\n  - {name: user, kind: categorical}\n  - {name: item, kind: categorical}\n")
	model := filepath.Join(dir, "model")
	want = trainedOn(t, "--data", write(t, dir, "rows.csv", csv), "--schema", schema)
	pq := write(t, dir, "rows.parquet", b.String())
	if got := trainedOn(t, "--data", pq, "--schema", schema, "--out", model); got.Digest != want.Digest || got.Examples != 4000 {
		t.Errorf("out of Parquet: digest %s of %d rows, want %s", got.Digest, got.Examples, want.Digest)
	}
	if o := psrt(t, "predict", "--model", model, "--data", pq); o.code != 0 || strings.Count(o.stdout, "\n") != 4000 {
		t.Errorf("predict on Parquet: exit %d, %d lines\n%s", o.code, strings.Count(o.stdout, "\n"), o.stderr)
	}
}

// What is wrong with input is told in one line that names the file and what to do.
func TestTrainOnBadFiles(t *testing.T) {
	dir := t.TempDir()
	long := write(t, dir, "long.libffm", rows(60000, 1))
	schema := write(t, dir, "schema.yaml", "columns:\n  - {name: label, kind: label}\n  - {name: user, kind: categorical}\n")
	for _, c := range []struct {
		name string
		code int
		args []string
		says []string
	}{
		{"a command that is none", 2, []string{"--data", long, "--pipe-command", "no-such-parser"}, []string{long, "exit status 127", "no-such-parser"}},
		{"a command that dies in the middle", 2, []string{"--data", long, "--pipe-command", "head -n 30000; echo 'bad luck' >&2; exit 9"}, []string{long, "exit status 9", "after 30000 lines", "bad luck"}},
		{"a command that hangs", 2, []string{"--data", long, "--pipe-command", "head -n 30000; sleep 1000", "--pipe-timeout", "300ms"}, []string{long, "gave nothing for 300ms"}},
		{"no time for it", 2, []string{"--data", long, "--pipe-command", "cat", "--pipe-timeout", "0s"}, []string{"--pipe-timeout"}},
		{"damaged Parquet", 2, []string{"--data", write(t, dir, "x.parquet", "PAR1 and nothing else that is Parquet"), "--schema", schema}, []string{"x.parquet", "damaged"}},
		{"Parquet without a schema", 2, []string{"--data", filepath.Join(dir, "x.parquet")}, []string{"--schema"}},
	} {
		o := psrt(t, append([]string{"train", "--workers", "2", "--batch", "256"}, c.args...)...)
		if o.code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s", c.name, o.code, c.code, o.stderr)
		}
		for _, s := range c.says {
			if !strings.Contains(o.stderr, s) {
				t.Errorf("%s: %q is not in\n%s", c.name, s, o.stderr)
			}
		}
	}
}

// A global shuffle is the same whatever the workers, and another one than without.
func TestGlobalShuffle(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "a.libffm", rows(3000, 1))
	args := []string{"--data", data, "--epochs", "2", "--global-shuffle"}
	two := trainedOn(t, args...)
	if one := trainedOn(t, append(args, "--workers", "1", "--threads", "3")...); one.Digest != two.Digest || one.Examples != 6000 {
		t.Errorf("one worker: %s of %d, two: %s", one.Digest, one.Examples, two.Digest)
	}
	if three := trainedOn(t, append(args, "--workers", "3", "--transport", "tcp")...); three.Digest != two.Digest {
		t.Errorf("three workers: %s, two: %s", three.Digest, two.Digest)
	} else if moved := three.Ranks[len(three.Ranks)-1].RowsMoved; moved == 0 {
		t.Error("the third worker got no rows of the others")
	}
	reduced := append(args, "--model", "deepfm", "--hidden", "8")
	want := trainedOn(t, reduced...)
	if got := trainedOn(t, append(reduced, "--dense", "allreduce")...); got.Digest != want.Digest {
		t.Errorf("with --dense allreduce: %s, want %s", got.Digest, want.Digest)
	}
	if other := trainedOn(t, args[:4]...); other.Digest == two.Digest {
		t.Error("the same without")
	}
	if o := psrt(t, "train", "--data", data, "--global-shuffle", "--dataset", "queue"); o.code != 2 || !strings.Contains(o.stderr, "--global-shuffle") {
		t.Errorf("in a queue: exit %d, %s", o.code, o.stderr)
	}
}

// TestShardingDynamic: one file does for eight workers, and each row is trained once an
// epoch, with a process that is replaced too.
func TestShardingDynamic(t *testing.T) {
	dir := t.TempDir()
	data := write(t, dir, "a.libffm", rows(9000, 1))
	args := []string{"train", "--data", data, "--epochs", "2", "--sharding", "dynamic", "--model", "fm", "--dim", "4", "--batch", "512", "--workers", "8", "--threads", "1", "--json"}
	got := resultOf(t, psrt(t, args...).stdout)
	sum := int64(0)
	for _, r := range got.Ranks {
		sum += r.Examples
	}
	if got.Examples != 18000 || sum != 18000 || len(got.Epochs) != 2 {
		t.Errorf("%d examples in %d epochs, %d by workers; want 18000 in 2", got.Examples, len(got.Epochs), sum)
	}
	for _, more := range [][]string{{"--sync", "bsp"}, {"--table-sync", "dense=ssp:2"}, {"--dataset", "memory"}, {"--checkpoint", filepath.Join(dir, "h")}} {
		if o := psrt(t, append(slices.Clone(args), more...)...); o.code != 2 || !strings.Contains(o.stderr, "--sharding dynamic") {
			t.Errorf("%q: exit %d, %s", more, o.code, o.stderr)
		}
	}
}

// TestMetricsBySlot: the figures by the values of a field are the same for every number
// of workers, those of a pass and of the test data, and the same that eval counts in one
// process; together they are the examples.
func TestMetricsBySlot(t *testing.T) {
	dir := t.TempDir()
	slotted := func(n int, seed uint64) (text string) {
		for i, row := range strings.Split(strings.TrimSpace(rows(n, seed)), "\n") {
			if i%4 > 0 {
				row += fmt.Sprintf(" 7:%d:1", 900+i%4)
			}
			text += row + "\n"
		}
		return text
	}
	data, test := write(t, dir, "a.libffm", slotted(3000, 1)), write(t, dir, "t.libffm", slotted(1000, 2))
	model := filepath.Join(dir, "model")
	args := []string{"--data", data, "--test", test, "--epochs", "2", "--fields", "8", "--metrics-by", "7", "--out", model}
	two := trainedOn(t, args...)
	three := trainedOn(t, append(args, "--workers", "3")...)
	if len(two.Slots) != 4 || two.Slots[3].Slot != "none" || len(two.Epochs[1].TrainSlots) != 4 {
		t.Fatalf("slots %+v, of the last epoch %+v", two.Slots, two.Epochs[1].TrainSlots)
	}
	flat := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for i := range two.Epochs {
		if a, b := flat(two.Epochs[i].TrainSlots), flat(three.Epochs[i].TrainSlots); a != b {
			t.Errorf("epoch %d with 2 workers\n%s\nwith 3\n%s", i+1, a, b)
		}
	}
	sum := int64(0)
	for _, s := range two.Slots {
		sum += s.Examples
	}
	if sum != 1000 {
		t.Errorf("the slots have %d of 1000 examples", sum)
	}
	o := psrt(t, "eval", "--model", model, "--data", test, "--metrics-by", "7", "--json")
	var one evaluation
	if err := json.Unmarshal([]byte(o.stdout), &one); err != nil {
		t.Fatalf("%v: %s", err, o.stderr)
	}
	if a, b := flat(one.Slots), flat(three.Slots); a != b {
		t.Errorf("one process\n%s\nthree workers\n%s", a, b)
	}
	if o := psrt(t, "train", "--data", data, "--fields", "8", "--metrics-by", "8"); o.code != 2 || !strings.Contains(o.stderr, "--metrics-by 8") {
		t.Errorf("a field that is not there: exit %d, %s", o.code, o.stderr)
	}
	if o := psrt(t, "train", "--data", data, "--fields", "8", "--metrics-by", "0"); o.code != 2 || !strings.Contains(o.stderr, "more than 64 values") {
		t.Errorf("a field of many values: exit %d, %s", o.code, o.stderr)
	}
}

// Figures by a csv column are told by its values, from one process and from several.
func TestMetricsByNames(t *testing.T) {
	dir := t.TempDir()
	schema := write(t, dir, "s.yaml", "columns:\n- {name: y, kind: label}\n- {name: sex, kind: categorical}\n- {name: item, kind: categorical}\n")
	var text strings.Builder
	text.WriteString("y,sex,item\n")
	for i := range 4000 {
		fmt.Fprintf(&text, "%d,%s,%d\n", i*7/3%2, []string{"male", "female", ""}[i%3], i%50)
	}
	data, model := write(t, dir, "d.csv", text.String()), filepath.Join(dir, "m")
	named := func(what string, slots []metric.SlotReport) {
		t.Helper()
		var got []string
		for _, s := range slots {
			got = append(got, s.Slot)
			if s.Key == "" || s.Examples < 1333 {
				t.Errorf("%s: %+v", what, s)
			}
		}
		if slices.Sort(got); !slices.Equal(got, []string{"female", "male", "missing"}) {
			t.Errorf("%s: %v", what, got)
		}
	}
	res := resultOf(t, ok(t, "train", "--data", data, "--schema", schema, "--test", data, "--metrics-by", "sex", "--model", "lr", "--workers", "2", "--out", model, "--quiet", "--json"))
	named("train", res.Slots)
	named("an epoch", res.Epochs[0].TrainSlots)
	for _, more := range [][]string{nil, {"--workers", "2"}} {
		var r evaluation
		if err := json.Unmarshal([]byte(ok(t, append([]string{"eval", "--model", model, "--data", data, "--metrics-by", "sex", "--json"}, more...)...)), &r); err != nil {
			t.Fatal(err)
		}
		named(fmt.Sprint("eval ", more), r.Slots)
	}
}

// A csv header that fits in part is refused by every command that reads the file, and a file without
// one is said to have none in the first line printed.
func TestCSVFirstLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	schema := write(t, dir, "s.yaml", "columns:\n- {name: click, kind: label, positive: [\"1\"]}\n- {name: user, kind: categorical}\n- {name: item, kind: categorical}\n")
	const rows = "i1,u1,1\ni2,u2,0\ni1,u3,1\ni2,u1,0\n"
	good, bad := write(t, dir, "good.csv", "# clicks\nitem,user,click\n"+rows), write(t, dir, "bad.csv", "Item,User,Click\n"+rows)
	bare, unlabelled := write(t, dir, "bare.csv", "1,u1,i1\n0,u2,i2\n"), write(t, dir, "unlabelled.csv", "item,User\ni1,u1\n")
	model, out := filepath.Join(dir, "m"), filepath.Join(dir, "scores")
	train := []string{"train", "--schema", schema, "--model", "lr", "--workers", "1", "--data"}
	for _, c := range []struct {
		args       []string
		code       int
		first, has string // the first line of stderr begins so; has is in it
	}{
		{append(slices.Clone(train), good, "--test", bare, "--out", model), 0, "csv, 2 fields", "1 comment line(s) skipped; --test: no header: columns are read in the schema's order (click, user, item)"},
		{append(slices.Clone(train), bad), 2, "psrt: " + bad + ":1:1: the first line looks like a header", `has no column "click" (did you mean Click?)`},
		{append(slices.Clone(train), good, "--valid", bad), 2, "psrt: " + bad + ":1:1: ", "did you mean Click?"},
		{[]string{"eval", "--model", model, "--data", bad}, 2, "psrt: " + bad + ":1:1: ", "did you mean Click?"},
		{[]string{"eval", "--model", model, "--data", bare}, 0, "--data: no header", "(click, user, item)"},
		{[]string{"predict", "--model", model, "--data", unlabelled}, 2, "psrt: " + unlabelled + ":1:1: ", `"user" (did you mean User?)`},
		{[]string{"predict", "--model", model, "--data", unlabelled, "--workers", "2", "--out", out}, 2, "psrt: " + unlabelled + ":1:1: ", "did you mean User?"},
	} {
		o := psrt(t, c.args...)
		first, _, _ := strings.Cut(o.stderr, "\n")
		if o.code != c.code || !strings.HasPrefix(first, c.first) || !strings.Contains(first, c.has) {
			t.Errorf("%q: exit %d, %s\nwant exit %d, %s … %s", c.args, o.code, o.stderr, c.code, c.first, c.has)
		}
	}
	for _, args := range [][]string{
		append(slices.Clone(train), bare, "--json", "--quiet"),
		{"eval", "--model", model, "--data", bare, "--json"},
		{"eval", "--model", model, "--data", bare, "--json", "--workers", "2"},
	} {
		o := psrt(t, args...)
		var res struct {
			Notes []string `json:"data_notes"`
		}
		if err := json.Unmarshal([]byte(o.stdout), &res); err != nil || len(res.Notes) != 1 {
			t.Errorf("%q: %v, data_notes %q, want one of the missing header; %s", args, err, res.Notes, o.stderr)
		}
	}
}
