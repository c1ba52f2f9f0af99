package snmp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/csig-agent/csig/protocol/secret"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	good := Config{Address: "192.0.2.1", Community: "public", Ports: []string{"swp1"}}
	v3 := Config{Address: "192.0.2.1", Version: V3, User: "u", Auth: "SHA256", AuthPassphrase: "12345678", Priv: "AES256C", PrivPassphrase: "12345678", Ports: []string{"swp1"}}
	tests := []struct {
		name string
		from Config
		edit func(c *Config)
		want string
	}{
		{"v2c", good, func(*Config) {}, ""},
		{"v3", v3, func(*Config) {}, ""},
		{"no community", good, func(c *Config) { c.Community = "" }, "community is missing"},
		{"long community", good, func(c *Config) { c.Community = secret.Text(strings.Repeat("x", 128)) }, "at most 127"},
		{"short auth passphrase", v3, func(c *Config) { c.AuthPassphrase = "1234567" }, "auth passphrase is shorter"},
		{"short priv passphrase", v3, func(c *Config) { c.PrivPassphrase = "" }, "priv passphrase is shorter"},
		{"no ports", good, func(c *Config) { c.Ports = nil }, "no ports"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.from
			tt.edit(&c)
			s, err := New(c)
			switch {
			case tt.want == "":
				if err != nil {
					t.Fatal(err)
				}
				if s.cfg.Port != 161 || s.cfg.Timeout != defaultTimeout || s.cfg.Retries != 2 || s.cfg.Device != "192.0.2.1" {
					t.Errorf("defaults: %+v", s.cfg)
				}
			case err == nil || !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want %q", err, tt.want)
			case c.Address != "" && !strings.Contains(err.Error(), "device 192.0.2.1"):
				t.Errorf("%v names no device", err)
			}
		})
	}
	_, err := New(Config{Version: V3, Auth: "SHA"})
	for _, want := range []string{"auth passphrase", "ports"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: all mistakes at once, %s is not among them", err, want)
		}
	}
}

func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	c := Config{Community: "hunter2", AuthPassphrase: "hunter2", PrivPassphrase: "hunter2"}
	asJSON, err := json.Marshal(struct{ S secret.Text }{"hunter2"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q %v %x %d", c.Community, c.Community, c.Community, c.Community, c.Community), //nolint:govet // on purpose
		string(asJSON), fmt.Sprint(&c),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e746572") || !strings.Contains(text, "secret") {
			t.Errorf("%s", text)
		}
	}
	if secret.Text("").String() != "" {
		t.Error("an empty secret is none")
	}
}
