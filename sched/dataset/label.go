package dataset

// labelRule turns label text into a number. For ctr it accepts 0/1 or -1/1 but
// not both conventions in one source: a 0 among -1 and 1 usually means "unknown".
type labelRule struct {
	task     Task
	negative int8 // what the sniffed rows use for "no": 0, -1, unknownNegative or ignoredLabels
}

const (
	unknownNegative = 1
	ignoredLabels   = 2 // any text is a label, and means 0
)

// rule is what the options ask of labels before any was seen.
func (o *Options) rule() labelRule {
	if o.IgnoreLabels {
		return labelRule{task: o.Task, negative: ignoredLabels}
	}
	return labelRule{task: o.Task, negative: unknownNegative}
}

func (r labelRule) ignored() bool { return r.negative == ignoredLabels }

func (r labelRule) parse(cell []byte, offset int) (float32, *lineError) {
	if r.ignored() {
		return 0, nil
	}
	if r.task != Regression && len(cell) == 1 {
		if cell[0] == '1' {
			return 1, nil
		}
		if cell[0] == '0' && r.negative != -1 {
			return 0, nil
		}
	}
	v, err := parseFloat(cell)
	if err != nil {
		return 0, badLine(offset, "label %s is %v; %s", quote(cell), err, r.wanted())
	}
	if r.task == Regression {
		return v, nil
	}
	switch {
	case v == 1:
		return 1, nil
	case v == 0 && r.negative != -1, v == -1 && r.negative != 0:
		return 0, nil
	case v == 0 || v == -1:
		return 0, badLine(offset, "label %s, but earlier rows use -1/1 or 0/1 the other way; use one convention throughout", quote(cell))
	}
	return 0, badLine(offset, "label %s is neither 0/1 nor -1/1; %s", quote(cell), r.remedy())
}

// wanted is what a label must be.
func (r labelRule) wanted() string {
	if r.task == Regression {
		return "a label must be a finite number"
	}
	return "ctr labels are 0/1 or -1/1"
}

func (r labelRule) remedy() string {
	return r.wanted() + "; give --task regression to train on real numbers"
}

// note remembers the convention a raw label shows.
func (r *labelRule) note(cell []byte) {
	v, err := parseFloat(cell)
	if err != nil || r.task == Regression || r.negative != unknownNegative {
		return
	}
	if v == 0 || v == -1 {
		r.negative = int8(v)
	}
}
