package compress

import (
	"fmt"
	"strconv"
	"strings"
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
}

// On says whether anything is to be done.
func (c Choice) On() bool { return c.Auto || c.Code != Floats }

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
