package train

import (
	"fmt"
	"math"
	"slices"

	"psrt/sched/dataset"
	"psrt/sched/train/metric"
)

// extreme is the largest absolute value of a feature that was read, and whose it is.
// The zero value: none.
type extreme struct {
	Value float32 `json:"value,omitempty"`
	Field uint16  `json:"field,omitempty"`
	Key   uint64  `json:"key,omitempty"`
}

// note looks at a leaf's values.
func (x *extreme) note(b *dataset.Batch) {
	for i, v := range b.Values {
		if v < 0 {
			v = -v
		}
		if v > x.Value {
			*x = extreme{Value: v, Key: b.Keys[i]}
			if len(b.Fields) > 0 {
				x.Field = b.Fields[i]
			}
		}
	}
}

// larger is the larger of two.
func (x extreme) larger(y extreme) extreme {
	if y.Value > x.Value {
		return y
	}
	return x
}

// plainValue is the largest value of a feature that needs no scaling.
const plainValue = 100

// remedy says what to do about a model that does not fit.
func (x extreme) remedy(j *Job) string {
	if x.Value <= plainValue {
		return fmt.Sprintf("try a --lr below %g", j.Optimizer.LR)
	}
	return fmt.Sprintf("the values of %s go up to %g: divide them so that they are about 1, or take their logarithm", j.Reading.NameOf(x.Field, x.Key), x.Value)
}

// classWarning says why there is no AUC; "" where there is one, or no task that has it.
func classWarning(of string, r *metric.Report) string {
	if r == nil || !r.OneClass() {
		return ""
	}
	return fmt.Sprintf("all %d labels of the %s data are %.0f: there is no AUC", r.Counted(), of, *r.ActualCTR)
}

// rowWarning says which rows are in no figure; "" where all are in.
func rowWarning(of string, r *metric.Report) string {
	switch {
	case r == nil:
	case r.Examples == 0:
		return fmt.Sprintf("the %s data have no rows: there are no figures of them", of)
	case r.Invalid > 0:
		return fmt.Sprintf("%d of the %d predictions of the %s data are not finite, or too far off to be squared: the figures are of the other %d rows", r.Invalid, r.Examples, of, r.Counted())
	}
	return ""
}

// EvalWarnings lists the warnings about a trained model's figures on some data.
func EvalWarnings(of string, r *metric.Report) []string {
	all := figureWarnings(of, r)
	if s := worseThanConstant(of, r); s != "" {
		all = append(all, s+": look for values that training scaled otherwise, or a model that diverged")
	}
	return all
}

// figureWarnings lists the warnings about figures that are missing or of few rows.
func figureWarnings(of string, r *metric.Report) (all []string) {
	for _, s := range []string{classWarning(of, r), rowWarning(of, r)} {
		if s != "" {
			all = append(all, s)
		}
	}
	return all
}

// warn notes in an epoch what misleads in its figures; each kind once, not in every epoch
// that follows.
func (j *Job) warn(ep *Epoch, before []Epoch, largest extreme) {
	last := &Epoch{}
	if len(before) > 0 {
		last = &before[len(before)-1]
	}
	add := func(now, old string) {
		if now != "" && old == "" {
			ep.Warnings = append(ep.Warnings, now)
		}
	}
	add(classWarning("training", ep.Train), classWarning("training", last.Train))
	add(rowWarning("training", ep.Train), rowWarning("training", last.Train))
	valid := classWarning("validation", ep.Valid)
	if valid != "" {
		valid += "; the epoch with the least log loss is kept"
	}
	add(valid, classWarning("validation", last.Valid))
	add(rowWarning("validation", ep.Valid), rowWarning("validation", last.Valid))
	add(j.hopeless(ep, largest), j.hopeless(last, largest))
}

// worseThanConstant says that a model is worse than predicting the mean label; "" where it is not.
func worseThanConstant(of string, r *metric.Report) string {
	if r == nil || r.OneClass() { // the constant has no loss on one class, so that each model is worse
		return ""
	}
	figure, model, constant, yes := r.Hopeless()
	if !yes {
		return ""
	}
	return fmt.Sprintf("the %s %.4g of %d %s rows is worse than the %.4g of predicting their mean label", figure, model, r.Counted(), of, constant)
}

// hopeless says that an epoch's model is worse than the mean label, and what to do. An epoch
// that validation does not keep is overfitted where it fits the training data: early stop sees to it.
func (j *Job) hopeless(ep *Epoch, largest extreme) string {
	worse := worseThanConstant("training", ep.Train)
	if ep.Valid != nil && (ep.Best || worse != "") {
		worse = worseThanConstant("validation", ep.Valid)
	}
	if worse == "" {
		return ""
	}
	return fmt.Sprintf("epoch %d: %s: %s", ep.Epoch, worse, largest.remedy(j))
}

// epochWarnings lists the warnings of the result's epochs, without repetitions in a row.
func (r *Result) epochWarnings() (all []string) {
	for i := range r.Epochs {
		all = append(all, r.Epochs[i].Warnings...)
	}
	return slices.Compact(all)
}

// What figures are of.
const (
	onTrain = "train"
	onValid = "valid"
	onTest  = "test"
)

// noScore is the score of a model without figures: below every other, and JSON has it.
const noScore = -math.MaxFloat64

// score is what early stopping maximises, and comparable between epochs: an AUC is above
// every negative log loss, which stands for it where there is one class only. It must not
// depend on the number of workers: it comes from counts and sums in fixed point.
func score(r *metric.Report) float64 {
	switch {
	case r.AUC != nil:
		return *r.AUC
	case r.LogLoss != nil:
		return -*r.LogLoss
	case r.RMSE != nil:
		return -*r.RMSE
	}
	return noScore
}
