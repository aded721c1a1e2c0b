package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	druidv1alpha1 "druid.internal/druid/api/v1alpha1"
)

func TestBothFormsOfAHolderIdentityAreRead(t *testing.T) {
	for text, want := range map[string]Identity{
		"4c37667312a3912b:cdf818194e3a8c32:Leader": {"4c37667312a3912b", "cdf818194e3a8c32", druidv1alpha1.EtcdRoleLeader},
		"4c37667312a3912b:Member":                  {"4c37667312a3912b", "", druidv1alpha1.EtcdRoleMember},
		"1:2:Member":                               {"1", "2", druidv1alpha1.EtcdRoleMember},
	} {
		got, err := ParseIdentity(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestOtherHolderIdentitiesAreRefused(t *testing.T) {
	for _, text := range []string{"", "9002", ":", "::", "a:b:c:d", "x:Leader", "a:x:Leader", "a:b:leader", "a:Learner", "+a:b:Leader", "a:-1:Leader", "a::Leader", "0123456789abcdef0:Leader", "a:b:Leader "} {
		if got, err := ParseIdentity(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	for _, text := range []string{"4c37667312a3912b:cdf818194e3a8c32:Leader", "1:Member", "::", "1_0:Leader", "0x1:Leader"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseIdentity(text)
		if err == nil && id.String() != text {
			t.Errorf("%q was read as %q", text, id)
		}
	})
}
