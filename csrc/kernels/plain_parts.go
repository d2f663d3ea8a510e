package kernels

import "math"

// Counter is the float64 in two words; the first is the lower half.
func Counter(words []float32) float64 {
	return math.Float64frombits(uint64(math.Float32bits(words[0])) | uint64(math.Float32bits(words[1]))<<32)
}

// PutCounter is Counter's inverse.
func PutCounter(words []float32, v float64) {
	b := math.Float64bits(v)
	words[0], words[1] = math.Float32frombits(uint32(b)), math.Float32frombits(uint32(b>>32))
}

func plainLagging(p *Parts, rows *Rows, ids, out []uint32) int {
	found := 0
	for i, id := range ids {
		if int(id) < rows.Count && math.Float32bits(rows.row(id, int(p.Life)+LifeFloats)[p.Life+LifeSeq]) != p.Seq {
			out[found] = uint32(i)
			found++
		}
	}
	return found
}

func plainGatherParts(p *Parts, dst []float32, step int, rows *Rows, ids []uint32) {
	dim := int(p.Dim)
	for i, id := range ids {
		d := dst[i*step : i*step+dim]
		live := 0
		if int(id) < rows.Count {
			row := rows.row(id, int(p.Life)+LifeFloats)
			switch flags := math.Float32bits(row[p.Life+LifeSlot]); {
			case flags&Admitted == 0:
			case flags&Extended == 0:
				live = 1
			default:
				live = dim
			}
			copy(d[:live], row)
		}
		clear(d[live:])
	}
}

func plainUpdateParts(p *Parts, rows *Rows, ids []uint32, pushed []float32) (refused int) {
	width := PushCounts + int(p.Dim)
	var scaled [MaxPartsDim]float32
	for i, id := range ids {
		if id == math.MaxUint32 {
			continue
		}
		push := pushed[i*width : (i+1)*width]
		if int(id) >= rows.Count || !finite(push) || !(push[0] >= 0 && push[0] <= maxSlot && push[1] >= 0 && push[2] >= 0) {
			refused++
			continue
		}
		row := rows.row(id, int(p.Life)+LifeFloats)
		if math.Float32bits(row[p.Life+LifeSeq]) != p.Seq {
			refused++
			continue
		}
		if !p.push(row, push, scaled[:p.Dim]) {
			refused++
		}
	}
	return refused
}

func (p *Parts) score(show, click float64) float64 {
	return float64(p.Nonclk*(show-click)) + float64(p.Click*click)
}

// push reports false where the row stays as it was: divided by a show below 1 a finite
// gradient may not be finite.
func (p *Parts) push(row, push, scaled []float32) bool {
	life := row[p.Life:]
	flags := math.Float32bits(life[LifeSlot]) & 0xff
	g := push[PushCounts:]
	live := 0
	switch {
	case flags&Admitted == 0:
	case flags&Extended == 0:
		live = 1
	default:
		live = int(p.Dim)
	}
	if p.ShowScale != 0 && push[1] > 0 && push[1] != 1 {
		for i, x := range g[:live] {
			scaled[i] = x / push[1]
		}
		if g = scaled[:live]; !finite(g) {
			return false
		}
	}
	shows, clicks := float64(push[1]), float64(push[2])
	show, click := Counter(life[LifeShow:])+shows, Counter(life[LifeClick:])+clicks
	PutCounter(life[LifeShow:], show)
	PutCounter(life[LifeClick:], click)
	PutCounter(life[LifeDelta:], Counter(life[LifeDelta:])+p.score(shows, clicks))
	life[LifeUnseen] = math.Float32frombits(0)
	p.learn(row, g[:live])
	score := p.score(show, click)
	if p.AdmitBy == AdmitAlways || p.AdmitBy == AdmitShow && show >= p.AdmitAt || p.AdmitBy == AdmitScore && score >= p.AdmitAt {
		flags |= Admitted
	}
	if flags&Admitted != 0 && score >= p.ExtendAt {
		flags |= Extended
	}
	life[LifeSlot] = math.Float32frombits(uint32(push[0])<<8 | flags)
	return true
}

// learn updates the parts that live, which have gradients.
func (p *Parts) learn(row, g []float32) {
	dim := int(p.Dim)
	if len(g) > 0 {
		p.update(0, row[:1], row[dim:p.VectorState], g[:1])
	}
	if len(g) > 1 {
		p.update(1, row[1:dim], row[p.VectorState:p.Life], g[1:])
	}
}

func (p *Parts) update(part int, w, s, g []float32) {
	plainRow(&p.Rules[part], w, w, s, g)
	if p.Bounded[part] == 0 {
		return
	}
	for i, x := range w {
		if !(x >= p.Lo[part]) {
			x = p.Lo[part]
		}
		if !(x <= p.Hi[part]) {
			x = p.Hi[part]
		}
		w[i] = x
	}
}
