package micro

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ServePeer is the body of the process that Run starts. It ends when in does.
func ServePeer(in io.Reader, out io.Writer, opener Opener) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	st, err := join(from, to, opener)
	if err != nil {
		return errors.Join(err, to.Encode(greeting{Err: err.Error()}))
	}
	defer st.close()
	for {
		var p phase
		if err := from.Decode(&p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("micro: next phase: %w", err)
		}
		if err := st.fits(p); err != nil {
			return errors.Join(err, to.Encode(answer{Err: err.Error()}))
		}
		st.prepare(p)
		before := cpuSeconds() // with what the transport does by itself
		if err := to.Encode(answer{}); err != nil {
			return err
		}
		if _, err = st.play(p, nil); err != nil {
			return errors.Join(err, to.Encode(answer{Err: err.Error()}))
		}
		var finished bool
		if err := from.Decode(&finished); err != nil {
			return fmt.Errorf("micro: end of phase: %w", err)
		}
		cpu := cpuSeconds() - before
		if err := to.Encode(answer{CPUSeconds: cpu, Checksum: st.checksum(p)}); err != nil {
			return err
		}
	}
}

// fits refuses phases that the region has no room for.
func (s *station) fits(p phase) error {
	if p.Bytes < minBytes || p.Iterations < 1 || regionBytes([]int{p.Bytes}) > len(s.buf) {
		return fmt.Errorf("micro: phase of %d times %d bytes does not fit a region of %d", p.Iterations, p.Bytes, len(s.buf))
	}
	return nil
}

// join is the peer's side of the exchange before the first phase.
func join(from *json.Decoder, to *json.Encoder, opener Opener) (_ *station, err error) {
	var s setup
	if err := from.Decode(&s); err != nil {
		return nil, fmt.Errorf("micro: setup: %w", err)
	}
	st, err := open(opener, s, false)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	g := st.greeting()
	var door *rawDoor
	if _, bare := st.ep.(bareEndpoint); !st.caps.Mapped && !bare {
		if door, err = rawListen(s.Transport); err != nil {
			return nil, err
		}
		g.RawAddress, g.RawPeer = door.listener.Addr().String(), door.fingerprint()
	}
	if err := to.Encode(g); err != nil {
		return nil, err
	}
	var theirs greeting
	if err := from.Decode(&theirs); err != nil {
		return nil, fmt.Errorf("micro: greeting: %w", err)
	}
	if door != nil {
		if st.raw, err = door.accept(s.Nonce, st.stopped.Load); err != nil {
			return nil, err
		}
	}
	if err := st.connect(theirs); err != nil {
		return nil, err
	}
	return st, to.Encode(greeting{})
}
