package metric

import "math"

// Report is the figures of one accumulator. A figure that the task or the rows do not
// define is nil: every figure of no rows, and the AUC of rows of one class.
type Report struct {
	Examples int64 `json:"examples"`
	// Invalid examples had a prediction that is NaN, infinite or no
	// probability: the model has diverged. They are in no figure.
	Invalid int64 `json:"invalid,omitempty"`

	// AUC is within AUCErrorBound of the exact area.
	AUC           *float64 `json:"auc,omitempty"`
	AUCErrorBound *float64 `json:"auc_error_bound,omitempty"`
	LogLoss       *float64 `json:"logloss,omitempty"`  // mean; probabilities clipped to [Clip, 1-Clip]
	Accuracy      *float64 `json:"accuracy,omitempty"` // share on the right side of 1/2
	// COPC is clicks over predicted clicks: 1 when calibrated, above 1 when
	// the model predicts too few.
	COPC *float64 `json:"copc,omitempty"`
	// ActualCTR is the share of clicks, PredictedCTR the mean prediction.
	ActualCTR    *float64 `json:"actual_ctr,omitempty"`
	PredictedCTR *float64 `json:"predicted_ctr,omitempty"`

	// RMSE and MAE are of a ctr task, too: between prediction and label, 0 or 1.
	RMSE *float64 `json:"rmse,omitempty"`
	MAE  *float64 `json:"mae,omitempty"`

	// ConstantLogLoss (ctr) and ConstantRMSE (regression) are the figures of a model that
	// predicts the mean label of the same rows for each of them.
	ConstantLogLoss *float64 `json:"constant_logloss,omitempty"`
	ConstantRMSE    *float64 `json:"constant_rmse,omitempty"`
}

// Report computes the figures of what has been counted so far.
func (a *Accumulator) Report() *Report {
	r := &Report{Examples: int64(a.examples), Invalid: int64(a.invalid)}
	if a.examples <= a.invalid {
		return r
	}
	n := float64(a.examples - a.invalid)
	r.RMSE = figure(math.Sqrt(a.squares.value() / n))
	r.MAE = figure(a.distances.value() / n)
	if a.task == Regression {
		r.ConstantRMSE = a.deviation(n)
		return r
	}
	count := a.scores.pairs()
	if auc, ok := count.auc(); ok {
		r.AUC, r.AUCErrorBound = figure(auc), figure(count.bound())
	}
	r.LogLoss = figure(a.logLoss.value() / n)
	r.Accuracy = figure(float64(a.right) / n)
	r.ActualCTR, r.PredictedCTR = figure(a.labels.value()/n), figure(a.preds.value()/n)
	r.ConstantLogLoss = entropy(*r.ActualCTR)
	if predicted := a.preds.value(); predicted > 0 {
		r.COPC = figure(a.labels.value() / predicted)
	}
	return r
}

// entropy is the log loss of predicting a mean label for every row; nil where all labels
// are equal, since no model does better than such a constant.
func entropy(mean float64) *float64 {
	if !(mean > 0 && mean < 1) {
		return nil
	}
	return figure(-mean*math.Log(mean) - (1-mean)*math.Log1p(-mean))
}

// deviation is the standard deviation of n labels; nil where all are equal, or where a
// label was too large for its square to be added.
func (a *Accumulator) deviation(n float64) *float64 {
	if a.unsquared > 0 {
		return nil
	}
	mean := a.labels.value() / n
	variance := a.labelSquares.value()/n - mean*mean
	if !(variance > 1e-12*mean*mean) {
		return nil
	}
	return figure(math.Sqrt(variance))
}

// Counted is the number of examples that the figures are of.
func (r *Report) Counted() int64 { return r.Examples - r.Invalid }

// OneClass reports whether all labels of a ctr task were the same, so that there is no AUC.
func (r *Report) OneClass() bool { return r.LogLoss != nil && r.AUC == nil }

// surely is how far above a constant's a figure of n rows has to be before it is called
// worse: what chance explains shrinks with the root of n.
func surely(n int64) float64 { return 1 + 1/math.Sqrt(float64(n)) }

// Hopeless reports whether predicting the mean label for every row would do better, and
// compares the two.
func (r *Report) Hopeless() (figure string, model, constant float64, yes bool) {
	switch n := r.Counted(); {
	case n < 1:
	case r.ConstantLogLoss != nil && *r.LogLoss > *r.ConstantLogLoss*surely(n):
		return "log loss", *r.LogLoss, *r.ConstantLogLoss, true
	case r.ConstantRMSE != nil && *r.RMSE > *r.ConstantRMSE*surely(n):
		return "RMSE", *r.RMSE, *r.ConstantRMSE, true
	}
	return "", 0, 0, false
}

func figure(v float64) *float64 { return &v }
