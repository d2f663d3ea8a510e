package dataset

import "fmt"

// NameOf is a feature as the user knows it: its column, its field, or where a format's
// field is only the place in the line, its id.
func (o Options) NameOf(field uint16, key uint64) string {
	switch o.Format {
	case CSV:
		if o.Schema != nil {
			if names := o.Schema.fieldNames(); int(field) < len(names) {
				return "column " + names[field]
			}
		}
	case LibSVM, LibFM:
		return fmt.Sprintf("id %d", key)
	}
	return fmt.Sprintf("field %d", field)
}
