package repolint

import (
	"bytes"
	"go/format"
)

func checkParse(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if f.Err != nil {
			found = append(found, Finding{f.Path, 0, "does not parse (" + f.Err.Error() + "); instead write Go that go vet accepts"})
		}
	}
	return found
}

func checkFormat(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.GoFiles() {
		want, err := format.Source(f.Text)
		if err == nil && !bytes.Equal(want, f.Text) {
			found = append(found, Finding{f.Path, 0, "is not formatted; instead save what gofmt -w " + f.Path + " gives"})
		}
	}
	return found
}
