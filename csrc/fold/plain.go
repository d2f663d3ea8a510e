package fold

// tile is how many bytes are combined at a time.
const tile = 4096

func plainRun(j *Job, p *plan, dsts [][]byte) {
	one := plainOf(j.Type, j.Op)
	own := make([][]byte, len(p.srcs)) // by source: what it may be changed in
	x := make([][]byte, len(p.srcs))
	result := make([]byte, tile)
	for at := 0; at < len(dsts[0]); at += tile {
		end := min(at+tile, len(dsts[0]))
		for i, s := range p.srcs {
			x[i] = s[at:end]
		}
		for _, m := range p.steps {
			if own[m.Dst] == nil {
				own[m.Dst] = make([]byte, tile)
			}
			to := own[m.Dst][:end-at]
			one.combine(to, x[m.Dst], x[m.Src])
			x[m.Dst] = to
		}
		r := x[p.root]
		if j.Divide > 1 {
			one.divide(result[:end-at], r, j.Divide)
			r = result[:end-at]
		}
		for _, d := range dsts {
			copy(d[at:end], r)
		}
	}
}

// arithmetic of one type and operation over byte slices of equal length.
type arithmetic struct {
	combine func(o, a, b []byte)
	divide  func(o, a []byte, by int)
}

type number interface {
	~int8 | ~uint8 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

func combineOf[T number](op Op) func(a, b T) T {
	switch op {
	case Sum:
		return func(a, b T) T { return a + b }
	case Prod:
		return func(a, b T) T { return a * b }
	case Min:
		return func(a, b T) T {
			if b < a {
				return b
			}
			return a
		}
	default:
		return func(a, b T) T {
			if b > a {
				return b
			}
			return a
		}
	}
}

func plainOf(t Type, op Op) arithmetic {
	switch t {
	case I8:
		f := combineOf[int8](op)
		return arithmetic{each(f), eachBy(func(a int8, by int) int8 { return int8(int(a) / by) })}
	case U8:
		f := combineOf[uint8](op)
		return arithmetic{each(f), eachBy(func(a uint8, by int) uint8 { return uint8(int(a) / by) })}
	case I32:
		return plainNumber[int32](op)
	case U32:
		return plainNumber[uint32](op)
	case I64:
		return plainNumber[int64](op)
	case U64:
		return plainNumber[uint64](op)
	case F32:
		return plainNumber[float32](op)
	case F64:
		return plainNumber[float64](op)
	case F16:
		return plainHalf(op, FromF16, ToF16)
	default:
		return plainHalf(op, FromBF16, ToBF16)
	}
}

func plainNumber[T number](op Op) arithmetic {
	return arithmetic{each(combineOf[T](op)), eachBy(func(a T, by int) T { return a / T(by) })}
}

func plainHalf(op Op, from func(uint16) float32, to func(float32) uint16) arithmetic {
	f := combineOf[float32](op)
	return arithmetic{
		each(func(a, b uint16) uint16 { return to(f(from(a), from(b))) }),
		eachBy(func(a uint16, by int) uint16 { return to(from(a) / float32(by)) }),
	}
}

func each[T any](f func(a, b T) T) func(o, a, b []byte) {
	return func(o, a, b []byte) {
		to, x, y := as[T](o), as[T](a), as[T](b)
		for i := range to {
			to[i] = f(x[i], y[i])
		}
	}
}

func eachBy[T any](f func(a T, by int) T) func(o, a []byte, by int) {
	return func(o, a []byte, by int) {
		to, x := as[T](o), as[T](a)
		for i := range to {
			to[i] = f(x[i], by)
		}
	}
}
