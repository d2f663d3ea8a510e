package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"psrt/sched/psmsg"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// Tables is what a tables file describes.
type Tables struct {
	Seed  uint64 // rows are born from it
	Specs []table.Spec
	Dense Dense
	// Memory is what tables are to have of the server's memory where rows lie on
	// disks, by ID.
	Memory map[uint32]int64 `json:",omitempty"`
}

// maxTablesFile bounds the file.
const maxTablesFile = 1 << 20

// ReadTables reads a tables file (docs/serve.md) and tries the rules in it that
// users wrote.
func ReadTables(path string) (*Tables, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &InputError{Path: path, Msg: fmt.Sprintf("cannot be read: %v", plain(err))}
	}
	return ParseTables(path, b)
}

// plain is an error without the path, which stands before it already.
func plain(err error) error {
	if p, ok := err.(*os.PathError); ok {
		return p.Err
	}
	return err
}

// ParseTables is ReadTables on text; path is for messages and for where libraries
// lie.
func ParseTables(path string, b []byte) (*Tables, error) {
	t, err := parse(filepath.Dir(path), b)
	if e, ok := err.(*InputError); ok {
		e.Path = path
	}
	return t, err
}

func parse(dir string, b []byte) (*Tables, error) {
	if len(b) > maxTablesFile {
		return nil, &InputError{Msg: fmt.Sprintf("%d bytes, at most %d", len(b), maxTablesFile)}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(b, &root); err != nil {
		return nil, &InputError{Msg: "is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	if len(root.Content) == 0 {
		return nil, &InputError{Msg: "is empty, want `tables:` with a list under it"}
	}
	t := &Tables{Seed: 1}
	lines := map[string]int{}
	var denseNode *yaml.Node
	err := mapping(root.Content[0], "the file",
		field{"seed", whole(&t.Seed, "seed", 0, ^uint64(0))},
		field{"tables", func(n *yaml.Node) error {
			return sequence(n, "tables", func(n *yaml.Node) error { return t.add(n, dir, lines) })
		}},
		field{"dense", func(n *yaml.Node) error { denseNode = n; return nil }})
	if err == nil && denseNode != nil { // it is born from the seed
		err = t.Dense.read(denseNode, t.Seed)
	}
	if err != nil {
		return nil, err
	}
	if len(t.Specs) == 0 && t.Dense.Floats == 0 {
		return nil, &InputError{Msg: "describes neither a table nor a dense vector"}
	}
	return t, nil
}

// add reads one entry of tables.
func (t *Tables) add(n *yaml.Node, dir string, lines map[string]int) error {
	var memory int64
	spec, err := readTable(n, dir, &memory)
	if err != nil {
		return err
	}
	if line := lines[spec.Name]; line > 0 {
		return at(n, "table %q is described in line %d already; give it another name", spec.Name, line)
	}
	if i := slices.IndexFunc(t.Specs, func(o table.Spec) bool { return o.ID == spec.ID }); i >= 0 {
		return at(n, "tables %q and %q have the number %d both; give one of them another, by `id:`", t.Specs[i].Name, spec.Name, spec.ID)
	}
	lines[spec.Name] = n.Line
	t.Specs = append(t.Specs, spec)
	if memory > 0 {
		if t.Memory == nil {
			t.Memory = map[uint32]int64{}
		}
		t.Memory[spec.ID] = memory
	}
	return nil
}

// dtypes are the names of the one type that rows have.
var dtypes = []string{"float32", "f32", "float"}

func readTable(n *yaml.Node, dir string, memory *int64) (table.Spec, error) {
	var s table.Spec
	var dtype, rule string
	id := ^uint64(0)
	o := &s.Optimizer
	fields := []field{
		{"name", text(&s.Name, "name")},
		{"dim", whole(&s.Dim, "dim", 1, table.MaxDim)},
		{"dtype", func(n *yaml.Node) error {
			dtype = n.Value
			if !slices.Contains(dtypes, dtype) {
				return at(n, "dtype is %s, rows are %s", kindOf(n), dtypes[0])
			}
			return nil
		}},
		{"rule", text(&rule, "rule")},
		{"id", whole(&id, "id", 0, uint64(^uint32(0)))},
		{"init", func(n *yaml.Node) error { return readInit(n, &s.Init) }},
		{"memory", size(memory, "memory")},
		{"lifecycle", func(n *yaml.Node) (err error) { s.Lifecycle, err = readLifecycle(n); return err }},
		{"params", func(n *yaml.Node) (err error) { o.Params, err = readParams(n); return err }},
	}
	var zeros []string
	fields = append(fields, optimizerFields(o, &zeros)...)
	if err := mapping(n, "a table", fields...); err != nil {
		return s, err
	}
	switch {
	case s.Name == "":
		return s, at(n, "a table without a name; add `name:`")
	case s.Dim == 0:
		return s, at(n, "table %q without a dim; add `dim:`, the floats of a row", s.Name)
	case rule == "":
		return s, at(n, "table %q without a rule; add `rule:`, one of %s, or the path of a library of your own", s.Name, strings.Join(rules, ", "))
	}
	if err := readRule(n, s.Name, rule, dir, o); err != nil {
		return s, err
	}
	var err error
	if *o, err = o.WithZeros(zeros...); err != nil {
		return s, at(n, "table %q: %v", s.Name, err)
	}
	if s.ID = uint32(id); id > uint64(^uint32(0)) {
		s.ID = psmsg.TableID(s.Name)
	}
	if err := s.Validate(); err != nil {
		return s, at(n, "%v", strings.TrimPrefix(err.Error(), "table: "))
	}
	if s, err = accessor.Complete(s); err != nil {
		return s, at(n, "%v", err)
	}
	return s, nil
}

var rules = []string{table.SGD, table.AdaGrad, table.RowAdaGrad, table.Adam, table.FTRL, table.Sum, table.Assign}

// readRule takes a rule's name, or a library's path: relative to the file.
func readRule(n *yaml.Node, name, rule, dir string, o *table.Optimizer) error {
	switch {
	case slices.Contains(rules, rule):
		o.Kind = rule
		return nil
	case !strings.HasSuffix(rule, ".so"):
		return at(n, "table %q has the rule %q, want one of %s, or the path of a library of your own that ends in .so", name, rule, strings.Join(rules, ", "))
	case !filepath.IsAbs(rule):
		rule = filepath.Join(dir, rule)
	}
	abs, err := filepath.Abs(rule)
	if err != nil {
		return at(n, "table %q: %v", name, err)
	}
	o.Kind, o.Library = table.User, abs
	return nil
}

// optimizerFields reads what a rule takes; zeros gets the names of those that are given as 0.
func optimizerFields(o *table.Optimizer, zeros *[]string) []field {
	var fields []field
	for _, f := range []struct {
		name string
		to   *float32
	}{{"lr", &o.LR}, {"beta1", &o.Beta1}, {"beta2", &o.Beta2}, {"eps", &o.Eps}, {"beta", &o.Beta},
		{"l1", &o.L1}, {"l2", &o.L2}, {"initial_accumulator", &o.InitialAccumulator}} {
		read := real(f.to, f.name)
		fields = append(fields, field{f.name, func(n *yaml.Node) error {
			err := read(n)
			if err == nil && *f.to == 0 {
				*zeros = append(*zeros, f.name)
			}
			return err
		}})
	}
	return fields
}

// readInit takes `init: zero` and `init: {kind: uniform, scale: 0.01}`.
func readInit(n *yaml.Node, init *table.Init) error {
	if n.Kind == yaml.ScalarNode {
		return text(&init.Kind, "init")(n)
	}
	scale := float32(table.DefaultInitScale)
	err := mapping(n, "init", field{"kind", text(&init.Kind, "init kind")}, field{"scale", real(&scale, "init scale")},
		field{"zero_prefix", whole(&init.ZeroPrefix, "init zero_prefix", 0, table.MaxDim)})
	*init = init.Scaled(scale)
	return err
}

// readParams gives the lines "name=value", sorted, that a library gets.
func readParams(n *yaml.Node) (string, error) {
	if n.Kind != yaml.MappingNode {
		return "", at(n, "params is %s, want `{name: value}`", kindOf(n))
	}
	var lines []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if v.Kind != yaml.ScalarNode || strings.ContainsAny(k.Value, "=\n\x00") || strings.ContainsAny(v.Value, "\n\x00") {
			return "", at(k, "params: %s is %s, want one word or number", k.Value, kindOf(v))
		}
		lines = append(lines, k.Value+"="+v.Value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
