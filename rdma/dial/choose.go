package dial

import (
	"errors"
	"fmt"
)

// ErrNoTransport says that two processes have no transport in common that may
// be used.
var ErrNoTransport = errors.New("dial: no transport")

// offer is what one side says about a transport.
type offer struct {
	Name      string `json:"name"`
	CrossHost bool   `json:"cross_host"`
	// Lack says why the transport is known but cannot be used now.
	Lack string `json:"lack,omitempty"`
	// Rails describe its domains, where there are several; see Rail. An empty
	// one is down.
	Rails [][]byte `json:"rails,omitempty"`
}

// terms are one side's part in the choice.
type terms struct {
	Want   string  `json:"want"` // Auto or a name
	Offers []offer `json:"offers"`
	Facts  facts   `json:"facts"`
}

// sane bounds what a peer says.
func (t *terms) sane() bool {
	for _, o := range t.Offers {
		if len(o.Rails) > maxRails {
			return false
		}
		for _, r := range o.Rails {
			if len(r) > maxAddress {
				return false
			}
		}
	}
	return true
}

// choice is a transport to try and why.
type choice struct {
	name, reason string
	twins        bool // of the latest try
}

// choose lists what to try, in the order of the offers here. reaches says
// whether two offers with rails have a pair that meets. Pure, so that every
// rule is a line in a test.
func choose(here, peer terms, reaches func(here, peer offer) bool) ([]choice, error) {
	want := here.Want
	switch {
	case want == Auto:
		want = peer.Want
	case peer.Want != Auto && peer.Want != want:
		return nil, fmt.Errorf("%w: this process was started with --transport %s, the peer with --transport %s: use the same", ErrNoTransport, want, peer.Want)
	}
	distance := apart(here.Facts, peer.Facts)
	var list []choice
	passed := ""  // why a better one is not used
	lacking := "" // and which is lacking altogether
	for _, o := range here.Offers {
		if want != Auto && o.Name != want {
			continue
		}
		why := ""
		theirs, there := offered(peer.Offers, o.Name)
		switch {
		case o.Lack != "":
			why = o.Lack
		case !there:
			why = "the peer does not offer it"
		case theirs.Lack != "":
			why = "the peer says: " + theirs.Lack
		case !o.CrossHost && distance != "":
			why = distance
		case len(o.Rails) > 0 && !reaches(o, theirs):
			why = "no device here reaches one of the peer's"
		}
		if why != "" {
			switch {
			case o.Lack != "" && lacking == "":
				lacking = fmt.Sprintf(" (not %s: %s)", o.Name, o.Lack)
			case passed == "":
				passed = why
			}
			if want != Auto {
				return nil, fmt.Errorf("%w: --transport %s is not possible: %s: use --transport auto", ErrNoTransport, want, why)
			}
			continue
		}
		list = append(list, choice{name: o.Name, reason: o.Name + ": " + reason(o, want, passed, here.Facts) + lacking})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the peer offers %s, this process %s%s", ErrNoTransport, names(peer.Offers), names(here.Offers), lacking)
	}
	return list, nil
}

func reason(o offer, want, passed string, here facts) string {
	switch {
	case want != Auto:
		return "asked for by --transport " + want
	case passed != "":
		return passed
	case len(o.Rails) > 0:
		return "an RDMA device reaches the peer"
	case !o.CrossHost:
		return fmt.Sprintf("both processes run as uid %d on the same host", here.UID)
	}
	return "the best that both sides offer"
}

func offered(offers []offer, name string) (offer, bool) {
	for _, o := range offers {
		if o.Name == name {
			return o, true
		}
	}
	return offer{}, false
}

func names(offers []offer) string {
	text := ""
	for _, o := range offers {
		if o.Lack != "" {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += o.Name
	}
	if text == "" {
		return "nothing"
	}
	return text
}
