package localpath

import (
	"errors"
	"strings"
	"testing"
)

func TestScheme(t *testing.T) {
	for name, want := range map[string]string{
		"s3://b/p": "s3", "S3://b": "S3", "hdfs://n:8020/x": "hdfs", "gs://b": "gs", "file:///tmp/x": "file", "abfss+x.y-1://c": "abfss+x.y-1",
		"": "", "model": "", "/a/b": "", "./s3://b/p": "", "s3:/b": "", "s3:b": "", "://x": "", "1s3://b": "", "a/b://c": "", "s3:/": "", "s3://": "s3", "ä://": "",
	} {
		if got := Scheme(name); got != want {
			t.Errorf("Scheme(%q) = %q, want %q", name, got, want)
		}
		var e *Error
		if err := Check(name); (err != nil) != (want != "") || err != nil && (!errors.As(err, &e) || !e.BadInput() || !strings.Contains(err.Error(), "./"+name)) {
			t.Errorf("Check(%q): %v", name, err)
		}
	}
}
