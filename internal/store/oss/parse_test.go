package oss

import (
	"testing"
	"time"
)

func TestTheRegionIsTakenFromTheEndpoint(t *testing.T) {
	for host, want := range map[string]string{
		"oss-eu-central-1.aliyuncs.com":          "eu-central-1",
		"oss-eu-central-1-internal.aliyuncs.com": "eu-central-1",
		"OSS-CN-Hangzhou.aliyuncs.com":           "cn-hangzhou",
		"cn-hangzhou.oss.aliyuncs.com":           "cn-hangzhou",
		"oss-accelerate.aliyuncs.com":            "",
		"oss-accelerate-overseas.aliyuncs.com":   "",
		"oss.example.com":                        "",
		"127.0.0.1":                              "",
	} {
		if got := regionOf(host); got != want {
			t.Errorf("regionOf(%s) = %q, want %q", host, got, want)
		}
	}
	o, err := Options{Bucket: "bucket", Endpoint: "oss-eu-central-1.aliyuncs.com", Region: "oss-cn-hangzhou", Keys: func() (Keys, error) { return Keys{}, nil }}.complete()
	if err != nil || o.Region != "cn-hangzhou" || o.Endpoint != "https://oss-eu-central-1.aliyuncs.com" {
		t.Errorf("the region is %q and the endpoint %q, %v", o.Region, o.Endpoint, err)
	}
}

func FuzzDatesAreReadOrRefused(f *testing.F) {
	f.Add("2020-10-15T15:50:32")
	f.Add("2020-10-15T15:50:32.000Z")
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := parseDate(s); err == nil && at.Location() != time.UTC {
			t.Errorf("%q is read as %s", s, at)
		}
	})
}

func FuzzRegionsAreOneWord(f *testing.F) {
	f.Add("oss-eu-central-1.aliyuncs.com")
	f.Fuzz(func(t *testing.T, host string) {
		for _, r := range regionOf(host) {
			if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
				t.Errorf("regionOf(%q) = %q", host, regionOf(host))
			}
		}
	})
}
