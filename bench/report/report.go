package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Version of the JSON; Read refuses others.
const Version = 1

// Report is one run of one suite.
type Report struct {
	Version   int       `json:"version"`
	Suite     string    `json:"suite"`
	Transport string    `json:"transport"`
	Time      time.Time `json:"time"`
	Program   string    `json:"program"` // version of the program
	Commit    string    `json:"commit"`
	Seed      uint64    `json:"seed"`
	Machine   Machine   `json:"machine"`
	Rows      []Row     `json:"rows"`
	// Notes say what the limits are and what is not measured.
	Notes []string `json:"notes"`
	// Fabric is there where the rows are pairs of ranks.
	Fabric *Fabric `json:"fabric,omitempty"`
}

// Row is one line: an operation at one size.
type Row struct {
	Op         string     `json:"op"`
	Bytes      int        `json:"bytes"`
	Iterations int        `json:"iterations"`
	Latency    *Latency   `json:"latency,omitempty"`
	Bandwidth  *Bandwidth `json:"bandwidth,omitempty"`
	// Limit is what the machine itself does, in the unit of the row:
	// microseconds or GB/s.
	Limit float64 `json:"limit"`
	// BulkLimit is the same for the whole memory instead of this size; 0 where
	// there is no such limit.
	BulkLimit float64 `json:"bulk_limit,omitempty"`
	Ratio     float64 `json:"ratio"`
	// Rival is what another program reached in turns with it, where one ran.
	Rival *Rival `json:"rival,omitempty"`
	// FanIn is what rows of that suite say besides.
	FanIn *FanIn `json:"fan_in,omitempty"`
	// Chain is what rows of that suite say besides.
	Chain *Chain `json:"chain,omitempty"`
	// Collective is what rows of that suite say besides.
	Collective *Collective `json:"collective,omitempty"`
	// Pair is what rows of one ordered pair of ranks say besides.
	Pair *Pair `json:"pair,omitempty"`
	// CPUSecondsPerGB is of both processes together.
	CPUSecondsPerGB float64 `json:"cpu_s_per_gb"`
	Load            float64 `json:"load"` // 1-minute load average
	// Checksum of what was moved, the same at both ends.
	Checksum string `json:"checksum"`
}

// Rival compares a row with another program that took turns with it. Ratios are
// times or bandwidths of this program divided by the other's.
type Rival struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"` // its median, in the unit of the row
	Ratio float64 `json:"ratio"` // median over the rounds
	Least float64 `json:"ratio_min"`
	Lower float64 `json:"ratio_q1"` // a quarter of the rounds is below
	Upper float64 `json:"ratio_q3"`
	Most  float64 `json:"ratio_max"`
	Limit float64 `json:"limit_ratio"` // of the row's limit to it, median
	// Of the limit's ratio, likewise.
	LimitLeast float64 `json:"limit_ratio_min"`
	LimitMost  float64 `json:"limit_ratio_max"`
	Rounds     int     `json:"rounds"`
}

// Latency is in microseconds.
type Latency struct {
	Min     float64 `json:"t_min_us"`
	Typical float64 `json:"t_typical_us"` // median
	Avg     float64 `json:"t_avg_us"`
	P99     float64 `json:"t_99_us"`
	P999    float64 `json:"t_99_9_us"`
}

// Bandwidth is in GB/s, 1 GB being 1e9 bytes.
type Bandwidth struct {
	Avg  float64 `json:"avg_gb_s"`
	Peak float64 `json:"peak_gb_s"` // the best round
	// Rate is the average in million messages a second.
	Rate float64 `json:"rate_m_s"`
}

// JSON writes the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Read reads what JSON wrote.
func Read(from io.Reader) (*Report, error) {
	var r Report
	if err := json.NewDecoder(from).Decode(&r); err != nil {
		return nil, fmt.Errorf("not a report written with --json: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("report has version %d, this program reads %d; measure again with one program", r.Version, Version)
	}
	return &r, nil
}
