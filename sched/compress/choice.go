package compress

import (
	"fmt"
	"strconv"
	"strings"

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
	Auto  bool    `json:"auto,omitempty"`  // Floats, Half or Byte, whatever is fastest
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

// Parse reads auto, none, fp16, int8 or topk:R.
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
	if share, ok := strings.CutPrefix(s, "topk:"); ok {
		r, err := strconv.ParseFloat(share, 64)
		c := Choice{Code: Top, Share: r}
		if err == nil {
			err = c.Check()
		}
		if err != nil {
			return Choice{}, fmt.Errorf("compress: %q: want topk:R with R above 0 and at most 1, as in topk:0.05", s)
		}
		return c, nil
	}
	return Choice{}, fmt.Errorf("compress: %q is none of auto, none, fp16, int8 and topk:R", s)
}

// Check refuses a choice that no Parse gives.
func (c Choice) Check() error {
	switch {
	case c.Code >= codeEnd, c.Auto && c.Code != Floats, c.Code != Top && c.Share != 0:
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
		return "topk:" + strconv.FormatFloat(c.Share, 'g', -1, 64)
	}
	return c.Code.String()
}
