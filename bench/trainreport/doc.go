// Package trainreport renders the result of a training job as one HTML file
// that opens without a network: figures, curves as inline SVG, where the time
// went and what each rank used.
//
// It must not know how a job is run: it gets a train.Result.
package trainreport
