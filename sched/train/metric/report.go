package metric

import "math"

// Report is the figures of one accumulator. What has no meaning for the task
// is nil.
type Report struct {
	Examples int64 `json:"examples"`
	// Invalid examples had a prediction that is NaN, infinite or no
	// probability: the model has diverged. They are in no figure.
	Invalid int64 `json:"invalid,omitempty"`

	// AUC is within AUCErrorBound of the exact area. Where the data have one
	// class only, nothing can be said: 0.5, with a bound of 0.5.
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
}

// Report computes the figures of what has been counted so far.
func (a *Accumulator) Report() *Report {
	r := &Report{Examples: int64(a.examples), Invalid: int64(a.invalid)}
	n := float64(max(a.examples-a.invalid, 1))
	r.RMSE = figure(math.Sqrt(a.squares.value() / n))
	r.MAE = figure(a.distances.value() / n)
	if a.task == Regression {
		return r
	}
	count := a.scores.pairs()
	auc, ok := count.auc()
	bound := 0.5
	if ok {
		bound = count.bound()
	} else {
		auc = 0.5
	}
	r.AUC, r.AUCErrorBound = &auc, &bound
	r.LogLoss = figure(a.logLoss.value() / n)
	r.Accuracy = figure(float64(a.right) / n)
	r.ActualCTR, r.PredictedCTR = figure(a.labels.value()/n), figure(a.preds.value()/n)
	if predicted := a.preds.value(); predicted > 0 {
		r.COPC = figure(a.labels.value() / predicted)
	}
	return r
}

func figure(v float64) *float64 { return &v }
