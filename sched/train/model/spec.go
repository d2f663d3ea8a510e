package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The kinds of model, as `psrt train --model` names them.
const (
	LR       = "lr"       // logistic (or linear) regression
	FM       = "fm"       // factorization machine, second order
	WideDeep = "widedeep" // linear part + MLP over pooled embeddings
	DeepFM   = "deepfm"   // FM + MLP over the same embeddings
	DCN      = "dcn"      // DCN-v2, full matrices, cross network parallel to the MLP
)

// Kinds lists every model kind.
func Kinds() []string { return []string{LR, FM, WideDeep, DeepFM, DCN} }

// The two tasks.
const (
	CTR        = "ctr"        // labels 0 and 1, log loss
	Regression = "regression" // any finite label, squared loss
)

// Limits of a Spec. They keep every tensor of a leaf far inside int32, which
// is what BLAS counts with.
const (
	MaxDim         = 1024
	MaxFields      = 4096
	MaxLayers      = 16
	MaxUnits       = 16384
	MaxInput       = 1 << 16 // Fields*Dim of the deep kinds
	MaxCrossLayers = 8
)

// Spec describes a model. Two processes that build a Model from equal Specs
// have equal layouts and compute equal bits on machines of one type.
type Spec struct {
	Kind        string  `json:"kind" yaml:"kind"`
	Dim         int     `json:"dim,omitempty" yaml:"dim,omitempty"`       // floats in an embedding; unused by lr
	Fields      int     `json:"fields,omitempty" yaml:"fields,omitempty"` // field ids are 0 to Fields-1; used by the deep kinds
	Hidden      []int   `json:"hidden,omitempty" yaml:"hidden,omitempty"` // units of the MLP's layers, input side first
	CrossLayers int     `json:"cross_layers,omitempty" yaml:"cross_layers,omitempty"`
	Dropout     float32 `json:"dropout,omitempty" yaml:"dropout,omitempty"` // share of units zeroed in training, 0 to less than 1
	BatchNorm   bool    `json:"batch_norm,omitempty" yaml:"batch_norm,omitempty"`
	Task        string  `json:"task" yaml:"task"`
	Seed        uint64  `json:"seed" yaml:"seed"`
	MeanLabel   float64 `json:"mean_label,omitempty" yaml:"mean_label,omitempty"` // the bias starts here (ctr: at its logit; 0: at 0); see StartMean
}

// Deep says whether the kind has an MLP over pooled field embeddings.
func (s Spec) Deep() bool { return s.Kind == WideDeep || s.Kind == DeepFM || s.Kind == DCN }

// CrossNetwork says whether the kind has cross layers.
func (s Spec) CrossNetwork() bool { return s.Kind == DCN }

// Validate says what is wrong with the spec, with the value and the limit.
func (s Spec) Validate() error {
	if !slices.Contains(Kinds(), s.Kind) {
		return fmt.Errorf("model: kind %q, must be one of %s", s.Kind, strings.Join(Kinds(), ", "))
	}
	if s.Task != CTR && s.Task != Regression {
		return fmt.Errorf("model: task %q, must be %s or %s", s.Task, CTR, Regression)
	}
	if err := s.validateMean(); err != nil {
		return err
	}
	if s.Kind != LR && (s.Dim < 1 || s.Dim > MaxDim) {
		return fmt.Errorf("model: embedding dimension %d of %s, must be 1 to %d", s.Dim, s.Kind, MaxDim)
	}
	if s.Deep() {
		return s.validateDeep()
	}
	return nil
}

func (s Spec) validateMean() error {
	switch {
	case math.IsNaN(s.MeanLabel) || math.IsInf(s.MeanLabel, 0):
		return fmt.Errorf("model: mean label %v, must be finite; look for bad labels in the data", s.MeanLabel)
	case s.Task == CTR && (s.MeanLabel < 0 || s.MeanLabel > 1):
		return fmt.Errorf("model: mean label %v of a ctr task, must be 0 to 1; use task %s for other labels", s.MeanLabel, Regression)
	}
	return nil
}

func (s Spec) validateDeep() error {
	switch {
	case s.Fields < 1 || s.Fields > MaxFields:
		return fmt.Errorf("model: %d fields for %s, must be 1 to %d", s.Fields, s.Kind, MaxFields)
	case s.Fields*s.Dim > MaxInput:
		return fmt.Errorf("model: %d fields of dimension %d make an input of %d, at most %d; lower the dimension", s.Fields, s.Dim, s.Fields*s.Dim, MaxInput)
	case len(s.Hidden) < 1 || len(s.Hidden) > MaxLayers:
		return fmt.Errorf("model: %d hidden layers for %s, must be 1 to %d", len(s.Hidden), s.Kind, MaxLayers)
	case !(s.Dropout >= 0 && s.Dropout < 1):
		return fmt.Errorf("model: dropout %v, must be at least 0 and less than 1", s.Dropout)
	case s.CrossNetwork() && (s.CrossLayers < 1 || s.CrossLayers > MaxCrossLayers):
		return fmt.Errorf("model: %d cross layers for dcn, must be 1 to %d", s.CrossLayers, MaxCrossLayers)
	}
	for i, units := range s.Hidden {
		if units < 1 || units > MaxUnits {
			return fmt.Errorf("model: hidden layer %d has %d units, must be 1 to %d", i, units, MaxUnits)
		}
	}
	return nil
}
