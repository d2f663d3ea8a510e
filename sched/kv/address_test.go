package kv

import "testing"

// An address that cannot be dialed is refused when the configuration is read.
func TestAddressesAreChecked(t *testing.T) {
	for _, text := range []string{"servers: [127.0.0.1]", "servers: ['127.0.0.1:1', 'http://127.0.0.1:7700']", "servers: ['127.0.0.1:99999']", "servers: ['127.0.0.1:0']",
		"servers: ['']", "servers: ['::1:7700']", "coordinator: node0", "coordinator: https://node0:2379"} {
		_, err := ParseConfig([]byte(text + "\ntoken_file: token\n"))
		wantCode(t, err, BadConfig, "want HOST:PORT")
	}
	for _, text := range []string{"servers: ['[::1]:7700', 'unix:/run/psrt', 'node0:7700']", "coordinator: tcp:node0:7000"} {
		if _, err := ParseConfig([]byte(text + "\ntoken_file: token\n")); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
