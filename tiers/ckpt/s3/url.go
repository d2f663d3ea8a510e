package s3

import (
	"fmt"
	"net/url"
	"strings"
)

const scheme = "s3://"

// Is says whether a location is one for this package.
func Is(location string) bool { return strings.HasPrefix(location, scheme) }

// place is a location taken apart.
type place struct {
	bucket, prefix   string // prefix ends with a slash, or is empty
	endpoint, region string
	secure           bool
}

func parse(location string) (place, error) {
	u, err := url.Parse(location)
	if err != nil {
		return place{}, fmt.Errorf("s3: %w; write s3://bucket/prefix?endpoint=http://host:port", err)
	}
	if u.User != nil {
		return place{}, fmt.Errorf("s3: %s names a user; put credentials into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", u.Redacted())
	}
	p := place{bucket: u.Host, prefix: strings.Trim(u.Path, "/"), endpoint: "s3.amazonaws.com", secure: true}
	if p.bucket == "" {
		return place{}, fmt.Errorf("s3: %s names no bucket; write s3://bucket/prefix", location)
	}
	if p.prefix != "" {
		p.prefix += "/"
	}
	for k, v := range u.Query() {
		switch k {
		case "endpoint":
			if err := p.setEndpoint(v[0]); err != nil {
				return place{}, err
			}
		case "region":
			p.region = v[0]
		default:
			return place{}, fmt.Errorf("s3: parameter %q of %s, known are endpoint and region", k, location)
		}
	}
	return p, nil
}

func (p *place) setEndpoint(s string) error {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("s3: endpoint %q, want http://host:port or https://host:port", s)
	}
	p.endpoint, p.secure = u.Host, u.Scheme == "https"
	return nil
}
