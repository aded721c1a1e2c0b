package downgrader

import (
	"strings"
	"testing"
)

func TestHowFarADowngradeIs(t *testing.T) {
	runs := func(version, storage, allowed string) Member {
		return Member{Name: "m", Version: version, Storage: storage, Allowed: allowed}
	}
	for phrase, c := range map[string]struct {
		members []Member
		want    State
		says    string
	}{
		"nobody allowed it":           {[]Member{runs("3.6.16", "3.6.0", ""), runs("3.6.16", "3.6.0", "")}, Due, ""},
		"it is allowed, as one knows": {[]Member{runs("3.6.16", "3.6.0", "3.5.0"), runs("3.6.16", "3.6.0", "")}, Converting, "form of etcd 3.6.0"},
		"one is behind":               {[]Member{runs("3.6.16", "3.5.0", "3.5.0"), runs("3.6.16", "3.6.0", "3.5.0")}, Converting, "form of etcd 3.6.0"},
		"all have the form":           {[]Member{runs("3.6.16", "3.5.0", "3.5.0"), runs("3.6.16", "3.5.0", "3.5.0")}, Ready, ""},
		"one runs it":                 {[]Member{runs("3.5.21", "", ""), runs("3.6.16", "3.5.0", "3.5.0")}, Ready, ""},
		"all run it":                  {[]Member{runs("3.5.21", "", ""), runs("3.5.27", "", "")}, Done, ""},
		"the form of before, and nobody allowed it": {[]Member{runs("3.6.16", "3.5.0", "")}, Due, ""},
		"a version with the same beginning":         {[]Member{runs("3.50.1", "3.50.0", "")}, Due, ""},
		"to another version":                        {[]Member{runs("3.6.16", "3.6.0", "3.4.0")}, Refused, "to 3.4.0 goes on, as m says"},
		"a learner":                                 {[]Member{{Name: "m", Version: "3.6.16", Storage: "3.6.0", Learner: true}}, Refused, "m has no vote yet"},
		"one cannot be asked":                       {[]Member{runs("3.6.16", "3.6.0", ""), {Name: "n", Problem: "connection refused"}}, Refused, "n cannot be asked: connection refused"},
		"no member":                                 {nil, Refused, "no member"},
	} {
		t.Run(phrase, func(t *testing.T) {
			v := Decide(c.members, "3.5")
			if v.State != c.want || !strings.Contains(strings.Join(v.Reasons, "; "), c.says) {
				t.Errorf("%+v, want %s with %q", v, c.want, c.says)
			}
		})
	}
}

func TestAVersionIsMinor(t *testing.T) {
	for _, s := range []string{"", "3", "3.5.1", "v3.5", "3.x"} {
		if v, err := ParseVersion(s); err == nil || !strings.Contains(err.Error(), "like 3.5") {
			t.Errorf("%q: %q, %v", s, v, err)
		}
	}
}
