package serve

import (
	"go.yaml.in/yaml/v3"

	"psrt/sched/densemap"
	"psrt/sched/psmsg"
	"psrt/sched/server"
	"psrt/tiers/accessor"
	"psrt/tiers/table"
)

// maxDenseFloats bounds the dense vector: every trainer holds it whole, twice.
const maxDenseFloats = 1 << 26

// Dense is the dense vector: named parts behind one another, under one rule.
type Dense struct {
	Floats    int
	Optimizer table.Optimizer
	Parts     []psmsg.DensePart
	Init      []float32
}

// read takes the `dense:` section.
func (d *Dense) read(n *yaml.Node, seed uint64) error {
	var rule string
	var zeros []string
	var parts *yaml.Node
	fields := append([]field{{"rule", text(&rule, "rule")}, {"parts", func(n *yaml.Node) error { parts = n; return nil }}}, optimizerFields(&d.Optimizer, &zeros)...)
	if err := mapping(n, "dense", fields...); err != nil {
		return err
	}
	if d.Optimizer.Kind = rule; rule == "" {
		return at(n, "dense without a rule; add `rule:`, such as adam")
	}
	var err error
	if d.Optimizer, err = d.Optimizer.WithZeros(zeros...); err != nil {
		return at(n, "dense: %v", err)
	}
	if rule == table.User || d.Optimizer.Validate() != nil {
		err := d.Optimizer.Validate()
		if err == nil {
			return at(n, "dense: rule %s: a dense vector takes built-in rules only", rule)
		}
		return at(n, "dense: %v", err)
	}
	if parts == nil {
		return at(n, "dense without parts; add `parts: [{name: bias, size: 1}]`")
	}
	return sequence(parts, "parts", func(n *yaml.Node) error { return d.add(n, seed) })
}

// add reads one part and draws its values.
func (d *Dense) add(n *yaml.Node, seed uint64) error {
	var name string
	var size int
	init := table.Init{Kind: table.InitZero}
	err := mapping(n, "a part", field{"name", text(&name, "name")}, field{"size", whole(&size, "size", 1, maxDenseFloats)},
		field{"init", func(n *yaml.Node) error { init = table.Init{}; return readInit(n, &init) }})
	switch {
	case err != nil:
		return err
	case name == "":
		return at(n, "a part without a name; add `name:`")
	case size == 0:
		return at(n, "part %q without a size; add `size:`, its floats", name)
	case size > maxDenseFloats-d.Floats:
		return at(n, "part %q of %d floats makes the dense vector longer than %d", name, size, maxDenseFloats)
	}
	for _, p := range d.Parts {
		if p.Name == name {
			return at(n, "two parts are named %q; rename one", name)
		}
	}
	values, err := born(name, size, init, seed)
	if err != nil {
		return at(n, "part %q: %v", name, err)
	}
	d.Parts = append(d.Parts, psmsg.DensePart{Name: name, First: d.Floats, Len: size})
	d.Init = append(d.Init, values...)
	d.Floats += size
	return nil
}

// born draws a part's values as those of a table's rows, piece by piece: from
// the seed and the part's name alone.
func born(name string, size int, init table.Init, seed uint64) ([]float32, error) {
	const piece = 1024
	acc, err := accessor.New(table.Spec{Name: name, ID: psmsg.TableID(name), Dim: piece, Init: init, Optimizer: table.Optimizer{Kind: table.SGD}}, seed)
	if err != nil {
		return nil, err
	}
	values := make([]float32, (size+piece-1)/piece*piece)
	for i := 0; i < len(values); i += piece {
		acc.Born(uint64(i/piece), values[i:i+piece])
	}
	return values[:size], nil
}

func (d *Dense) config() server.DenseConfig {
	if d.Floats == 0 {
		return server.DenseConfig{}
	}
	return server.DenseConfig{Ranges: []densemap.Range{{Len: d.Floats, Rule: "grad"}}, Optimizer: d.Optimizer, Init: d.Init}
}
