package table

import (
	"fmt"
	"reflect"
	"strings"
)

// Effective lists what holds for a table with a lifecycle, defaults filled in:
// name=value, in the order of the documentation. A start of psrt prints it.
func (s Spec) Effective() string {
	if s.Lifecycle == nil {
		return "no lifecycle"
	}
	l := *s.Lifecycle
	if l.Admit == "" {
		l.Admit = AdmitAll
	}
	l.Embed, l.Embedx = l.Embed.WithDefaults(false), l.Embedx.WithDefaults(true)
	var out []string
	add := func(name string, v any) { out = append(out, fmt.Sprintf("%s=%v", name, v)) }
	for name, v := range fields(l) {
		part, isPart := v.(PartRule)
		switch {
		case name == "admit_count" && l.Admit != AdmitCount, name == "admit_score" && l.Admit != AdmitScore,
			name == "admit_probability" && l.Admit != AdmitProbability:
			continue // says nothing here
		case !isPart:
			add(name, v)
			continue
		case part.Rule == "":
			o := s.Optimizer.WithDefaults()
			part.Rule, part.LearningRate = o.Kind, part.rate(o)
		}
		add(name+".rule", part.Rule)
		for sub, v := range fields(part) {
			if x, isFloat := v.(float32); isFloat && x == 0 || sub == "rule" || v == (Bounds{}) {
				continue
			}
			add(name+"."+sub, v)
		}
	}
	return strings.Join(out, " ")
}

// rate is the learning rate of a part that the table's optimizer updates.
func (p PartRule) rate(o Optimizer) float32 {
	if p.LearningRate != 0 {
		return p.LearningRate
	}
	return o.LR
}

// fields goes over a description's fields by the names its readers use.
func fields(v any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		x := reflect.ValueOf(v)
		for i := range x.NumField() {
			if !yield(x.Type().Field(i).Tag.Get("yaml"), x.Field(i).Interface()) {
				return
			}
		}
	}
}
