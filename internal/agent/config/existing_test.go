package config

import (
	"strings"
	"testing"
)

func TestAnExistingClusterIsWholeOrNotThere(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "",
		`{members: [{name: a, peerUrls: ["http://a:2380"]}], endpoints: ["http://a:2379"]}`: "",
		`{endpoints: ["http://a:2379"]}`:                                                                                            "members is empty",
		`{members: [{name: a, peerUrls: ["http://a:2380"]}]}`:                                                                       "endpoints is empty",
		`{members: [{name: a, peerUrls: ["http://a:2380"]}], endpoints: ["a:2379"]}`:                                                `endpoints: "a:2379" is not a URL`,
		`{members: [{peerUrls: ["http://a:2380"]}], endpoints: ["http://a:2379"]}`:                                                  "has no name",
		`{members: [{name: a}], endpoints: ["http://a:2379"]}`:                                                                      "a has no peerUrls",
		`{members: [{name: a, peerUrls: ["a:2380"]}], endpoints: ["http://a:2379"]}`:                                                `peer URL "a:2380" of a`,
		`{members: [{name: a, peerUrls: ["http://a:2380"]}, {name: a, peerUrls: ["http://b:2380"]}], endpoints: ["http://a:2379"]}`: `two members have the name "a"`,
	} {
		c, err := Parse([]byte("existingCluster: " + text))
		if err != nil {
			t.Fatal(err)
		}
		err = c.ExistingCluster.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
