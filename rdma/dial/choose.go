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
}

// terms are one side's part in the choice.
type terms struct {
	Want   string  `json:"want"` // Auto or a name
	Offers []offer `json:"offers"`
	Facts  facts   `json:"facts"`
}

// choice is a transport to try and why.
type choice struct {
	name, reason string
}

// choose lists what to try, in the order of the offers here. Pure, so that
// every rule is a line in a test.
func choose(here, peer terms) ([]choice, error) {
	want := here.Want
	switch {
	case want == Auto:
		want = peer.Want
	case peer.Want != Auto && peer.Want != want:
		return nil, fmt.Errorf("%w: this process was started with --transport %s, the peer with --transport %s: use the same", ErrNoTransport, want, peer.Want)
	}
	distance := apart(here.Facts, peer.Facts)
	var list []choice
	passed := "" // why a better one is not used
	for _, o := range here.Offers {
		if want != Auto && o.Name != want {
			continue
		}
		why := ""
		switch {
		case !offered(peer.Offers, o.Name):
			why = "the peer does not offer it"
		case !o.CrossHost && distance != "":
			why = distance
		}
		if why != "" {
			if passed == "" {
				passed = why
			}
			if want != Auto {
				return nil, fmt.Errorf("%w: --transport %s is not possible: %s: use --transport auto", ErrNoTransport, want, why)
			}
			continue
		}
		list = append(list, choice{o.Name, o.Name + ": " + reason(o, want, passed, here.Facts)})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: the peer offers %s, this process %s", ErrNoTransport, names(peer.Offers), names(here.Offers))
	}
	return list, nil
}

func reason(o offer, want, passed string, here facts) string {
	switch {
	case want != Auto:
		return "asked for by --transport " + want
	case passed != "":
		return passed
	case !o.CrossHost:
		return fmt.Sprintf("both processes run as uid %d on the same host", here.UID)
	}
	return "the best that both sides offer"
}

func offered(offers []offer, name string) bool {
	for _, o := range offers {
		if o.Name == name {
			return true
		}
	}
	return false
}

func names(offers []offer) string {
	text := ""
	for i, o := range offers {
		if i > 0 {
			text += ", "
		}
		text += o.Name
	}
	if text == "" {
		return "nothing"
	}
	return text
}
