package dial

import (
	"strings"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:7700", "node0:7700", ":7700", "[::1]:7700", "[fe80::1%eth0]:7700", "unix:/run/psrt", "unix:psrt", "localhost:65535", "a-b.example:1"} {
		if err := CheckAddress(addr); err != nil {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for addr, words := range map[string]string{
		"": "is empty", "127.0.0.1": "has no port", "node0": "has no port", "node0:": "has no port", "node0:0": "port 0",
		"node0:99999": `"99999"`, "node0:-1": `"-1"`, "node0:x y": "space", "http://node0:7700": `"http://"`, "tcp://node0:7700": `"tcp://"`,
		"::1": "brackets", "::1:7700": "brackets", "fe80::1%eth0:7700": "more than one colon", "[::1]": "has no port", "[a:b]:7700": "no IPv6", "unix:": "no path",
		"a:1,b:2": "comma", " a:1": "space", "node0/x:1": "slash", "a:b:1": "more than one colon",
	} {
		if err := CheckAddress(addr); err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "HOST:PORT") {
			t.Errorf("%q: %v, want %q", addr, err, words)
		}
	}
	if err := CheckCoordinator("tcp:node0:7000"); err != nil {
		t.Error(err)
	}
	if err := CheckCoordinator("tcp://node0:7000"); err == nil || !strings.Contains(err.Error(), `begins with "tcp://"`) {
		t.Error(err)
	}
	if err := CheckListen("127.0.0.1:0"); err != nil {
		t.Error(err)
	}
	if CheckListen("127.0.0.1:65536") == nil || CheckListen("") == nil {
		t.Error("listening at no address is taken")
	}
}
