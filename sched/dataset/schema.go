package dataset

// Schema describes the columns of a csv file; see ReadSchema for its YAML form.
type Schema struct {
	Separator string   `yaml:"separator,omitempty" json:"separator,omitempty"` // 1 to 8 bytes; "" is a comma, "tab" a tab
	Header    string   `yaml:"header,omitempty" json:"header,omitempty"`       // "true", "false", "auto" (default: the first line is a header if it holds the columns' names)
	Trim      *bool    `yaml:"trim,omitempty" json:"trim,omitempty"`           // drop blanks around cells; default true
	Missing   []string `yaml:"missing,omitempty" json:"missing,omitempty"`     // cells that mean "no value", besides the empty one
	Rest      string   `yaml:"rest,omitempty" json:"rest,omitempty"`           // kind of header columns the schema does not name: "ignored"; default: an error
	Columns   []Column `yaml:"columns" json:"columns"`
}

// Column is one column of a csv file.
type Column struct {
	Name string `yaml:"name" json:"name"`
	Kind string `yaml:"kind" json:"kind"` // numeric, categorical, multi, label, ignored

	// numeric
	Transform  string    `yaml:"transform,omitempty" json:"transform,omitempty"`   // none (default), log, standardize, bucketize
	Mean       *float64  `yaml:"mean,omitempty" json:"mean,omitempty"`             // standardize: found while sniffing if absent
	Std        *float64  `yaml:"std,omitempty" json:"std,omitempty"`               // likewise
	Boundaries []float64 `yaml:"boundaries,omitempty" json:"boundaries,omitempty"` // bucketize: bucket i holds boundaries[i-1] <= x < boundaries[i]
	Buckets    int       `yaml:"buckets,omitempty" json:"buckets,omitempty"`       // bucketize without boundaries: quantiles of the sniffed rows

	// multi
	Separator string `yaml:"separator,omitempty" json:"separator,omitempty"` // between values; default "|"
	Weight    string `yaml:"weight,omitempty" json:"weight,omitempty"`       // mean (default): 1/n for each of n values; one: 1 for each

	// label
	Positive      []string `yaml:"positive,omitempty" json:"positive,omitempty"`             // cells that mean 1; all others 0 unless Negative is given
	Negative      []string `yaml:"negative,omitempty" json:"negative,omitempty"`             // cells that mean 0; others are errors
	PositiveAbove *float64 `yaml:"positive_above,omitempty" json:"positive_above,omitempty"` // numbers above it mean 1, others 0
}
