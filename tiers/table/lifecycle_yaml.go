package table

import "encoding/json"

// maxLifecycleBytes bounds a settings file: all names there are make 2 KiB.
const maxLifecycleBytes = 64 << 10

// ParseLifecycle reads settings as a file has them, in YAML or JSON, without a
// name above them. What is not given, all of an empty file too, has its default.
func ParseLifecycle(text []byte) (*Lifecycle, error) {
	given, err := oneDocument(text)
	if err != nil {
		return nil, err
	}
	l := DefaultLifecycle()
	b, err := json.Marshal(given)
	if err == nil && given != nil {
		err = strictJSON(b, &l)
	}
	if err != nil {
		return nil, plainly(err)
	}
	if err := l.validate(Optimizer{}); err != nil {
		return nil, err
	}
	return &l, nil
}
