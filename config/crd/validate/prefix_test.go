package validate

import (
	"strings"
	"testing"

	"druid.internal/druid/config/crd/crdtest"
	"druid.internal/druid/internal/backup/snapshot"
)

// The schema must take what the programs take, and refuse what they refuse: else an Etcd is accepted
// whose sidecars do not start.
func TestThePrefixRuleIsTheOneOfThePrograms(t *testing.T) {
	etcds := load(t, "etcds")
	long := strings.Repeat("x", snapshot.MaxPrefixLength)
	for _, prefix := range []string{
		"", ".", "/", "//", "/.", "/./", "/...", "...", "..", "../a", "a/..", "a/../b", "/../a", "a..b", "a/...", "a", "/a", "a/", "//a//b/", "a//b", "a/./b", "./a",
		" ", " a", "a ", "a b", "a/ b", "a /b", "/ ", "a\tb", "a\n", "\n", "a\x00b", "a\x7f", "a\u00a0b", "a\u200bb", "\ufeffa", `a\b`, `\`, "a%2Fb", "a+b?c#d&e<f>$^|[](){}*'\"",
		"ünïcode/路径", "e\u0301", "🙂", "x/v2", "v2/Full-00000000-00000001-1.gz", long, long + "x", strings.Repeat("ü", snapshot.MaxPrefixLength/2), strings.Repeat("ü", snapshot.MaxPrefixLength/2+1),
	} {
		c := crdtest.Case{Change: crdtest.Set{"spec.backup.store": map[string]any{"container": "bucket", "provider": "aws", "prefix": prefix}}}
		_, object := c.Objects()
		errs := etcds.Validate(object, nil)
		if _, why := snapshot.NewPrefix(prefix); (why != nil) != (len(errs) > 0) {
			t.Errorf("prefix %q: the programs say %v, the schema %v", prefix, why, errs)
		}
	}
}
