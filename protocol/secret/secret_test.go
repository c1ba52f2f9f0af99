package secret

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestSecretNeverPrints(t *testing.T) {
	const word = "correct horse"
	v := struct {
		User     string
		Password Text
	}{"csig", word}
	js, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{
		string(js),
		fmt.Sprint(v), fmt.Sprintf("%v %+v %#v", v, v, &v),
		fmt.Sprintf("%s %q %x %d", v.Password, v.Password, v.Password, v.Password),
		fmt.Errorf("login: %w %v", fmt.Errorf("%v", v.Password), &v.Password).Error(),
	} {
		if strings.Contains(out, "horse") || strings.Contains(out, fmt.Sprintf("%x", word)) {
			t.Errorf("the secret is in %q", out)
		}
	}
	if got := fmt.Sprint(Text("")); got != "" {
		t.Errorf("an empty secret prints as %q; want nothing, so that a missing one shows", got)
	}
}
