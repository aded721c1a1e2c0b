package open

import (
	"strings"
	"testing"
)

func FuzzNoErrorAboutCredentialsShowsTheirContent(f *testing.F) {
	f.Add([]byte(`{"accessKeyID":"a","secretAccessKey":"b","insecureSkipVerify":true,"x":null}`))
	f.Add([]byte(`{"region":5}`))
	f.Add([]byte(`["a"]`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := parseJSON(b)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than one line", err)
			}
			return
		}
		for name, v := range values {
			if name != fieldCustomerKey && strings.TrimSpace(v) != v {
				t.Errorf("the field %q kept its white space: %q", name, v)
			}
		}
		if _, err := (fields{values: values}).boolean(fieldInsecureSkipVerify); err != nil && len(values[fieldInsecureSkipVerify]) > 5 &&
			strings.Contains(err.Error(), values[fieldInsecureSkipVerify]) && !strings.Contains(": the field insecureSkipVerify must be true or false", values[fieldInsecureSkipVerify]) {
			t.Errorf("%q shows the value", err)
		}
	})
}

func FuzzProvidersAreTheOriginalsNamesAndNothingElse(f *testing.F) {
	for _, n := range names {
		for _, name := range n.names {
			f.Add(name)
		}
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := ParseProvider(name)
		if (p == "") != (err != nil) {
			t.Errorf("ParseProvider(%q) = %q, %v", name, p, err)
		}
		if err == nil {
			if again, err := ParseProvider(string(p)); err != nil || again != p {
				t.Errorf("the canonical name %q is read as %q, %v", p, again, err)
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is more than one line", err)
		}
	})
}
