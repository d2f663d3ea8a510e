package table

import (
	"encoding/json"
	"fmt"
	"math"
)

const (
	// LifeFloats is the length of what a lifecycle keeps at the end of a row:
	// words, not numbers; see package accessor.
	LifeFloats = 11
	// PushCounts are the floats before a push's gradients: slot, show, click.
	PushCounts = 3
	// MaxSlot bounds the number of a slot: a float32 must hold it.
	MaxSlot = 1<<24 - 1
)

// How new keys are admitted. The empty word is AdmitAll.
const (
	AdmitAll         = "all"
	AdmitCount       = "count"       // weights live from show >= admit_count on
	AdmitScore       = "score"       // weights live from score >= admit_score on
	AdmitProbability = "probability" // a row is made for this part of all keys
)

// Lifecycle says when a feature's row is made, when it gets its vector, what of
// it is saved for serving, and when it goes. docs/lifecycle.md explains each.
//
// Its fields mean what they say, 0 included: whoever makes one in Go begins with
// DefaultLifecycle, and reading one from YAML or JSON does that by itself.
type Lifecycle struct {
	// score(show, click) = nonclk_coeff (show - click) + click_coeff click
	NonclkCoeff float64 `yaml:"nonclk_coeff" json:"nonclk_coeff"`
	ClickCoeff  float64 `yaml:"click_coeff" json:"click_coeff"`

	// What a model for serving has.
	BaseThreshold  float64 `yaml:"base_threshold" json:"base_threshold"`
	DeltaThreshold float64 `yaml:"delta_threshold" json:"delta_threshold"`
	DeltaKeepDays  int     `yaml:"delta_keep_days" json:"delta_keep_days"`

	// What a shrink does.
	ShowClickDecayRate    float64 `yaml:"show_click_decay_rate" json:"show_click_decay_rate"`
	DeleteThreshold       float64 `yaml:"delete_threshold" json:"delete_threshold"`
	DeleteAfterUnseenDays int     `yaml:"delete_after_unseen_days" json:"delete_after_unseen_days"`
	// Capacity is how many rows of the table a shrink leaves, those of the highest
	// score; 0 is no limit.
	Capacity uint64 `yaml:"capacity" json:"capacity"`
	// SSDUnseendayThreshold is read and has no effect: rows leave memory by the
	// tiers' policy, which knows when each will be used.
	SSDUnseendayThreshold int `yaml:"ssd_unseenday_threshold" json:"ssd_unseenday_threshold"`

	// The three gates.
	CreateValueWhenPush bool    `yaml:"create_value_when_push" json:"create_value_when_push"`
	Admit               string  `yaml:"admit" json:"admit"`
	AdmitCount          float64 `yaml:"admit_count" json:"admit_count"`
	AdmitScore          float64 `yaml:"admit_score" json:"admit_score"`
	AdmitProbability    float64 `yaml:"admit_probability" json:"admit_probability"`
	EmbedxThreshold     float64 `yaml:"embedx_threshold" json:"embedx_threshold"`

	// ShowScale divides a push's gradients by its shows.
	ShowScale bool `yaml:"show_scale" json:"show_scale"`
	// Embed and Embedx are the rules of the first weight and of the vector.
	Embed  PartRule `yaml:"embed" json:"embed"`
	Embedx PartRule `yaml:"embedx" json:"embedx"`
}

// DefaultLifecycle is the one set of defaults there is.
func DefaultLifecycle() Lifecycle {
	return Lifecycle{
		NonclkCoeff: 0.1, ClickCoeff: 1,
		BaseThreshold: 1.5, DeltaThreshold: 0.25, DeltaKeepDays: 16,
		ShowClickDecayRate: 0.98, DeleteThreshold: 0.8, DeleteAfterUnseenDays: 30,
		SSDUnseendayThreshold: 1,
		CreateValueWhenPush:   true, Admit: AdmitAll, AdmitCount: 2, AdmitScore: 1, AdmitProbability: 1, EmbedxThreshold: 10,
		ShowScale: true,
	}
}

// Score is what shows and clicks are worth.
func (l *Lifecycle) Score(show, click float64) float64 {
	return float64(l.NonclkCoeff*(show-click)) + float64(l.ClickCoeff*click)
}

// plainLifecycle has the fields and not the methods.
type plainLifecycle Lifecycle

// UnmarshalJSON begins with the defaults; null leaves them.
func (l *Lifecycle) UnmarshalJSON(b []byte) error {
	p := plainLifecycle(DefaultLifecycle())
	if err := strictJSON(b, &p); err != nil {
		return fmt.Errorf("lifecycle: %w", err)
	}
	*l = Lifecycle(p)
	return nil
}

// UnmarshalYAML begins with the defaults.
func (l *Lifecycle) UnmarshalYAML(unmarshal func(any) error) error {
	var given map[string]any
	if err := unmarshal(&given); err != nil {
		return fmt.Errorf("lifecycle: %w", err)
	}
	if err := refuseZeros(given); err != nil {
		return err
	}
	b, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("lifecycle: %w", err)
	}
	return l.UnmarshalJSON(b)
}

func (l *Lifecycle) validate(o Optimizer) error {
	for _, f := range []struct {
		name string
		v    float64
	}{{"nonclk_coeff", l.NonclkCoeff}, {"click_coeff", l.ClickCoeff}, {"base_threshold", l.BaseThreshold},
		{"delta_threshold", l.DeltaThreshold}, {"delete_threshold", l.DeleteThreshold}, {"embedx_threshold", l.EmbedxThreshold},
		{"admit_count", l.AdmitCount}, {"admit_score", l.AdmitScore}, {"delta_keep_days", float64(l.DeltaKeepDays)},
		{"delete_after_unseen_days", float64(l.DeleteAfterUnseenDays)}, {"ssd_unseenday_threshold", float64(l.SSDUnseendayThreshold)}} {
		if !(f.v >= 0) || math.IsInf(f.v, 0) {
			return fmt.Errorf("lifecycle: %s %v, must be finite and not negative", f.name, f.v)
		}
	}
	if !(l.ShowClickDecayRate > 0 && l.ShowClickDecayRate <= 1) {
		return fmt.Errorf("lifecycle: show_click_decay_rate %v, must be above 0 and at most 1 (1 = no decay); begin with DefaultLifecycle", l.ShowClickDecayRate)
	}
	switch l.Admit {
	case "", AdmitAll, AdmitCount, AdmitScore:
	case AdmitProbability:
		if !(l.AdmitProbability > 0 && l.AdmitProbability <= 1) {
			return fmt.Errorf("lifecycle: admit_probability %v, must be above 0 and at most 1", l.AdmitProbability)
		}
	default:
		return fmt.Errorf("lifecycle: admit %q, must be %s, %s, %s or %s", l.Admit, AdmitAll, AdmitCount, AdmitScore, AdmitProbability)
	}
	if o.Kind == User {
		return fmt.Errorf("lifecycle: rule %s updates whole rows and knows no parts; choose a built-in optimizer", User)
	}
	if err := l.Embed.validate("embed"); err != nil {
		return err
	}
	return l.Embedx.validate("embedx")
}
