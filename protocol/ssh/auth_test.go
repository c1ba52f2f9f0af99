package ssh

import (
	"slices"
	"testing"

	"github.com/csig-agent/csig/inventory"
)

// TestAnswer: the password is given once, to one question that hides what is typed.
func TestAnswer(t *testing.T) {
	t.Setenv("CSIG_TEST_PASSWORD", "secret")
	type ask struct {
		questions []string
		echos     []bool
	}
	hidden := ask{[]string{"Password: "}, []bool{false}}
	for _, tc := range []struct {
		name string
		asks []ask
		want []string // the last answer
		ok   bool
	}{
		{"one", []ask{hidden}, []string{"secret"}, true},
		{"nothing is asked", []ask{{}}, nil, true},
		{"nothing, and one", []ask{{}, hidden}, []string{"secret"}, true},
		{"one, and nothing", []ask{hidden, {}}, nil, true},
		{"two at once", []ask{{[]string{"Password: ", "Code: "}, []bool{false, false}}}, nil, false},
		{"one that shows what is typed", []ask{{[]string{"Name: "}, []bool{true}}}, nil, false},
		{"one after the other", []ask{hidden, {[]string{"New password: "}, []bool{false}}}, nil, false},
	} {
		a := &authenticator{ctx: t.Context(), login: inventory.SSH{Password: inventory.Secret{Env: "CSIG_TEST_PASSWORD"}}}
		var got []string
		var err error
		for _, q := range tc.asks {
			got, err = a.answer("", "", q.questions, q.echos)
		}
		if (err == nil) != tc.ok || (a.failed == nil) != tc.ok || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
	}
}
