package s3

import "testing"

func TestAWSIsKnownByItsAddressAlone(t *testing.T) {
	cases := map[string]struct {
		o    Options
		want bool
	}{
		"no endpoint":                      {Options{}, true},
		"a region's endpoint":              {Options{Endpoint: "https://s3.eu-central-1.amazonaws.com"}, true},
		"a private endpoint":               {Options{Endpoint: "https://bucket.vpce-0a1b.s3.eu-central-1.vpce.amazonaws.com"}, true},
		"China":                            {Options{Endpoint: "https://s3.cn-north-1.amazonaws.com.cn"}, true},
		"a name that ends alike":           {Options{Endpoint: "https://notamazonaws.com"}, false},
		"a name that contains it":          {Options{Endpoint: "https://s3.amazonaws.com.example"}, false},
		"anybody, since nobody is checked": {Options{Endpoint: "https://s3.amazonaws.com", InsecureSkipVerify: true}, false},
		"anybody, on plain http":           {Options{Endpoint: "http://s3.amazonaws.com"}, false},
		"a server of one's own":            {Options{Endpoint: "https://127.0.0.1:9000"}, false},
	}
	for name, c := range cases {
		if got := c.o.ofAWS(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
