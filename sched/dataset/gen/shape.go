package gen

// field is one column: codes 1 to size by a power law, code 0 for "missing".
type field struct {
	size    uint64  // codes without the missing one
	a       float64 // exponent
	span    float64 // size^(1-a) - 1: what the inverse of the distribution needs
	missing uint64  // threshold on 64 bits
	paired  bool    // takes part in the planted pairs
}

// Shares of rows without a value, in 1/100, and sizes of the columns of the
// public Criteo sample, which the generated shape follows.
var (
	criteoIntMissing = [...]uint64{45, 0, 21, 22, 3, 22, 4, 0, 4, 45, 4, 76, 22}
	criteoIntCodes   = [...]uint64{30, 60, 70, 25, 120, 70, 40, 25, 60, 6, 20, 15, 40}
	criteoCatMissing = [...]uint64{0, 0, 3, 3, 0, 12, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 44, 44, 3, 76, 0, 3, 44, 44}
	criteoCatSizes   = [...]uint64{1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194,
		27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572}
)

// pairedFields is how many fields take part in pairs: with more of them each
// pair would be too weak to learn.
const pairedFields = 4

func shape(c Config) []field {
	if c.Kind == "zipf" {
		fields := make([]field, c.Fields)
		for i := range fields {
			fields[i] = newField(c.Vocab/uint64(c.Fields), c.Zipf, 0)
			fields[i].paired = i < pairedFields
		}
		return fields
	}
	var fields []field
	for i, n := range criteoIntCodes {
		fields = append(fields, newField(n, c.Zipf, criteoIntMissing[i]))
	}
	for i, n := range scaledSizes(c.Vocab) {
		a := c.Zipf
		if n > tailSize {
			a = max(a-tailFlatter, 0.1)
		}
		f := newField(n, a, criteoCatMissing[i])
		fields = append(fields, f)
	}
	paired := 0
	for i := criteoInts; i < len(fields) && paired < pairedFields; i++ {
		if fields[i].size >= 100 && fields[i].size <= tailSize {
			fields[i].paired = true
			paired++
		}
	}
	return fields
}

// Columns above tailSize get a flatter law: in the real data they carry the
// share of ids seen once.
const (
	tailSize    = 50000
	tailFlatter = 0.15
)

// scaledSizes shrinks or stretches the large columns until all have vocab ids.
func scaledSizes(vocab uint64) []uint64 {
	var small, large uint64
	for _, n := range criteoCatSizes {
		if n > tailSize {
			large += n
		} else {
			small += n
		}
	}
	sizes := make([]uint64, len(criteoCatSizes))
	for i, n := range criteoCatSizes {
		switch {
		case vocab < 2*small:
			n = max(n*vocab/(small+large), 3)
		case n > tailSize:
			n = max(n*(vocab-small)/large, 3)
		}
		sizes[i] = n
	}
	return sizes
}

func newField(size uint64, a float64, missingPercent uint64) field {
	if d := 1 - a; d < 1e-6 && d > -1e-6 {
		a = 1 + 1e-6 // the law at exactly 1 needs another formula, and nobody can tell them apart
	}
	f := field{size: size, a: a, missing: missingPercent * (1 << 63 / 50)}
	f.span = power(float64(size+1), 1-a) - 1
	return f
}

// draw takes a code: the inverse of a continuous power law on [1, size+1),
// rounded down.
func (f *field) draw(s *stream) uint32 {
	if s.next() < f.missing {
		return 0
	}
	x := power(1+float64(f.span*s.unit()), 1/(1-f.a))
	return uint32(min(max(uint64(x), 1), f.size))
}

// chance is about the share of rows with this code.
func (f *field) chance(code uint32) float64 {
	if code == 0 {
		return float64(f.missing) / (1 << 64)
	}
	return float64((1-f.a)/f.span*power(float64(code)+0.5, -f.a)) * (1 - float64(f.missing)/(1<<64))
}
