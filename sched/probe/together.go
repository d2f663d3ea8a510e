package probe

import "errors"

// Together makes one Meter of several that count different traffic: TCP, and
// soft-RoCE or a process's RDMA. Two that count the same would count it twice.
// Closing it closes them.
func Together(meters ...Meter) Meter { return &together{meters: meters} }

type together struct {
	meters []Meter
	part   Reading
}

func (t *together) Read(r *Reading) error {
	r.reset()
	for _, m := range t.meters {
		if err := m.Read(&t.part); err != nil {
			return err
		}
		r.Samples = append(r.Samples, t.part.Samples...)
		r.Lost += t.part.Lost
	}
	return nil
}

func (t *together) Close() error {
	var errs []error
	for _, m := range t.meters {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
