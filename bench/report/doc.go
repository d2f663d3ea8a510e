// Package report gives measurements a form: a histogram that costs no memory
// per sample, rows with the limit they are measured against, and the table,
// JSON and CSV that people and scripts read.
//
// It owns the columns, their units and the comparison of two reports. It must
// not know what is measured, nor how.
//
// The life of one row: a benchmark records its samples into a Histogram, or its
// rounds' bandwidths, makes a Row of them with the limit of the same run, and
// puts it into a Report. Text, JSON or CSV writes the Report; Read brings a
// JSON one back, and Compare sets the two side by side.
//
// ratio is the share of the limit that was reached, 1 being all of it, for
// times as for bandwidths. It is the median over the rounds of a run, each
// round's figure set against the limit measured right beside it, so it need not
// be the quotient of two other columns.
package report
