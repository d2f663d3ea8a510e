// Package decimal recognizes numbers as people and data files write them: digits, a sign, a point
// and an exponent. It owns that grammar alone. It must not know formats, flags or files.
//
// Package strconv accepts more, because it reads Go's literals: 1_000, 0x1p-2, and with base 0
// also 010 for eight. In data and flags such a text is a slip, or an id, and would be taken for a
// wrong number without a word. So every text that a user wrote passes Is, IsWhole or Float.
//
// The life of a text: Is walks it once, byte by byte, and Float then leaves the rounding to
// strconv. Both are bounded by the text. The package lies on the lowest floor, because flags,
// readers and tables use it.
package decimal
