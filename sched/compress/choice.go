package compress

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"psrt/csrc/decimal"
	"psrt/sched/compress/span"
)

// Code says how floats travel.
type Code uint8

const (
	Floats Code = iota // as they are
	Half               // two bytes, and an exponent a group
	Byte               // one byte, and a scale a group
	Top                // of dense values: the largest, with their places
	codeEnd
)

// String is the code's name, as in --compress.
func (c Code) String() string {
	names := [...]string{"none", "fp16", "int8", "topk"}
	if int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// Choice is what --compress says. The zero value is none.
type Choice struct {
	Code  Code    `json:"code,omitempty"`
	Share float64 `json:"share,omitempty"` // of Top: how many are sent
	// Warm is the passes over the data in which the share of Top falls to Share: in the
	// first one all is sent. What a model learns at first most gradients take part in.
	Warm int  `json:"warm,omitempty"`
	Auto bool `json:"auto,omitempty"` // Floats, Half or Byte, whatever is fastest
	// Merge is how many steps' rows are added up at most before they are sent; 0 and 1:
	// each step's are sent. MergeAuto finds out how many make steps shortest.
	Merge     int  `json:"merge,omitempty"`
	MergeAuto bool `json:"merge_auto,omitempty"`
}

// On says whether anything is to be done.
func (c Choice) On() bool { return c.Auto || c.Code != Floats || c.Merge > 1 }

// Keeps says whether what is computed in a step may be sent in a later one.
func (c Choice) Keeps() bool { return c.Code == Top || c.Merge > 1 }

// Flag is what was asked for, as flags.
func (c Choice) Flag() string {
	var flags []string
	if c.Auto || c.Code != Floats || c.Merge < 2 {
		flags = append(flags, "--compress "+c.String())
	}
	switch {
	case c.MergeAuto:
		flags = append(flags, "--merge-pushes auto")
	case c.Merge > 1:
		flags = append(flags, fmt.Sprintf("--merge-pushes %d", c.Merge))
	}
	return strings.Join(flags, " ")
}

// ShareIn is the share of Top in a pass over the data, the first of which is 0.
func (c Choice) ShareIn(pass int) float64 {
	if pass >= c.Warm {
		return c.Share
	}
	return math.Pow(c.Share, float64(pass)/float64(c.Warm))
}

// mostWarm bounds what Parse reads.
const mostWarm = 1000

// Parse reads auto, none, fp16, int8, topk:R or topk:R:WARM.
func Parse(s string) (Choice, error) {
	switch s {
	case "", "none":
		return Choice{}, nil
	case "auto":
		return Choice{Auto: true}, nil
	case "fp16":
		return Choice{Code: Half}, nil
	case "int8":
		return Choice{Code: Byte}, nil
	}
	if rest, ok := strings.CutPrefix(s, "topk:"); ok {
		share, warm, warms := strings.Cut(rest, ":")
		r, err := decimal.Float(share, 64)
		c := Choice{Code: Top, Share: r}
		if err == nil && warms {
			c.Warm, err = strconv.Atoi(warm)
		}
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			return Choice{}, fmt.Errorf("compress: %q: want topk:R with R above 0 and at most 1, as in topk:0.05, or topk:R:N with N passes, 0 to %d, in which the share falls to R, as in topk:0.05:3", s, mostWarm)
		}
		return c, nil
	}
	return Choice{}, fmt.Errorf("compress: %q is none of auto, none, fp16, int8, topk:R and topk:R:N", s)
}

// ParseMerge reads off, auto, or a number of steps.
func ParseMerge(s string) (most int, auto bool, err error) {
	switch s {
	case "off":
		return 0, false, nil
	case "auto":
		return span.Auto, true, nil
	}
	most, err = strconv.Atoi(s)
	if err != nil || most < 2 || most > span.Most {
		return 0, false, fmt.Errorf("compress: %q: want off, auto, or 2 to %d", s, span.Most)
	}
	return most, false, nil
}

// Check refuses a choice that no Parse gives.
func (c Choice) Check() error {
	switch {
	case c.Code >= codeEnd, c.Auto && c.Code != Floats, c.Code != Top && (c.Share != 0 || c.Warm != 0), c.Warm < 0, c.Warm > mostWarm:
		return fmt.Errorf("compress: no such choice: %+v", c)
	case c.Code == Top && !(c.Share > 0 && c.Share <= 1):
		return fmt.Errorf("compress: topk of %g, want more than 0 and at most 1", c.Share)
	case c.Merge < 0 || c.Merge > span.Most || c.MergeAuto && c.Merge < 2:
		return fmt.Errorf("compress: the rows of %d steps merged, want 2 to %d, or 0", c.Merge, span.Most)
	case c.Merge > 1 && c.Code == Top, c.MergeAuto && c.Auto:
		return fmt.Errorf("compress: %s and merged steps: topk keeps rows by itself, and two choices by step times would take each other for their own; leave one of them out", c)
	}
	return nil
}

// String is what Parse reads.
func (c Choice) String() string {
	switch {
	case c.Auto:
		return "auto"
	case c.Code == Top:
		s := "topk:" + strconv.FormatFloat(c.Share, 'g', -1, 64)
		if c.Warm > 0 {
			s += fmt.Sprintf(":%d", c.Warm)
		}
		return s
	}
	return c.Code.String()
}
