package plan

// known says whether the model is of a kind that psrt train has.
func (m Model) known() bool {
	switch m.Kind {
	case "lr", "fm", "widedeep", "deepfm", "dcn":
		return true
	}
	return false
}

// RowFloats is what of a row travels.
func (m Model) RowFloats() float64 {
	switch m.Kind {
	case "lr":
		return 1
	case "dcn":
		return float64(m.Dim)
	}
	return float64(m.Dim + 1)
}

// copyBytes is a row as it is copied: weights, state, key.
func (m Model) copyBytes() float64 { return 4*m.RowFloats()*(1+m.StateFloats) + 8 }

// rowBytes is a row in memory, with its part of the index.
func (m Model) rowBytes() float64 { return m.copyBytes() + indexBytes }

// distinct is how many rows some examples name: each field has ids of its own.
func (m Model) distinct(examples float64) float64 {
	fields := float64(m.Fields)
	return fields * Distinct(examples, max(1, float64(m.Rows)/fields), m.Zipf)
}

// indexBytes is what the index takes for a row, besides.
const indexBytes = 17

// between is what lies between the halves of a model that ranks of two kinds compute,
// floats of an example each way: two, and the embeddings that the layers begin with.
func (m Model) between() float64 {
	if m.Kind == "lr" || m.Kind == "fm" {
		return 2
	}
	return float64(2 + m.Fields*m.Dim)
}

// dense is the number of dense parameters, and of multiply-adds of an example forwards.
func (m Model) dense() (params, multiplyAdds float64) {
	if m.Kind == "lr" || m.Kind == "fm" {
		return 1, 0
	}
	in := float64(m.Fields * m.Dim)
	last, width := in, 0.0
	for _, h := range m.Hidden {
		params += last*float64(h) + float64(h)
		multiplyAdds += last * float64(h)
		last = float64(h)
	}
	width = last
	if m.Kind == "dcn" {
		params += float64(m.CrossLayers) * (in*in + in)
		multiplyAdds += float64(m.CrossLayers) * in * in
		width += in
	}
	return params + width + 1, multiplyAdds + width
}
