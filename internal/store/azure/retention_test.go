package azure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"druid.internal/druid/internal/backup/immutability"
)

// Nil is "not told", which protects when collecting. It is the one answer that must never be
// given as "no lock".
func TestWhatAVersionAndItsContainerTellIsJoinedWithoutGuessing(t *testing.T) {
	made := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	until := made.Add(96 * time.Hour)
	lock := func(m immutability.Mode, at time.Time) *immutability.Retention {
		return &immutability.Retention{Mode: m, Until: at}
	}
	inferred := func(m immutability.Mode, at time.Time) *immutability.Retention {
		return &immutability.Retention{Mode: m, Until: at, Inferred: true}
	}
	none := &immutability.Retention{Mode: immutability.ModeNone}
	cases := map[string]struct {
		container protection
		version   blobLock
		want      *immutability.Retention
	}{
		"a plain container":                       {protection{known: true}, blobLock{created: &made}, none},
		"versions, without a lock":                {protection{known: true, versionLevel: true, policy: true}, blobLock{created: &made}, none},
		"versions, locked":                        {protection{known: true, versionLevel: true}, blobLock{until: &until, mode: "Locked"}, lock(immutability.ModeCompliance, until)},
		"versions, unlocked":                      {protection{known: true, versionLevel: true}, blobLock{until: &until, mode: "unlocked"}, lock(immutability.ModeGovernance, until)},
		"a mode that nobody has heard of":         {protection{known: true}, blobLock{until: &until, mode: "frozen"}, lock(immutability.ModeUnknown, until)},
		"a date without a mode":                   {protection{known: true, policy: true}, blobLock{until: &until}, lock(immutability.ModeGovernance, until)},
		"a date without a mode, locked container": {protection{known: true, policy: true, mode: immutability.ModeCompliance}, blobLock{until: &until}, lock(immutability.ModeCompliance, until)},
		"a policy of unknown period":              {protection{known: true, policy: true}, blobLock{created: &made}, nil},
		"a policy of known period":                {protection{known: true, policy: true, managed: true, mode: immutability.ModeCompliance, period: 96 * time.Hour}, blobLock{created: &made}, inferred(immutability.ModeCompliance, until)},
		"a policy, and no creation":               {protection{known: true, policy: true, managed: true, mode: immutability.ModeCompliance, period: 96 * time.Hour}, blobLock{}, nil},
		"properties that may not be read":         {protection{}, blobLock{created: &made}, nil},
		"the same, with a date of its own":        {protection{}, blobLock{until: &until, mode: "Locked"}, lock(immutability.ModeCompliance, until)},
		"a hold, and the rest unknown":            {protection{}, blobLock{hold: true}, &immutability.Retention{Mode: immutability.ModeUnknown, Hold: true}},
		"a hold of the container":                 {protection{known: true, hold: true}, blobLock{created: &made}, &immutability.Retention{Mode: immutability.ModeNone, Hold: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.container.retention(c.version)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAnEndpointIsTheAccountsWhereverItIsNamed(t *testing.T) {
	cases := map[string]struct{ endpoint, domain, want string }{
		"the public cloud":            {"", "", "https://mine1.blob.core.windows.net"},
		"another cloud":               {"", "blob.core.chinacloudapi.cn", "https://mine1.blob.core.chinacloudapi.cn"},
		"its own host":                {"https://mine1.blob.core.windows.net/", "", "https://mine1.blob.core.windows.net"},
		"without a scheme":            {"mine1.blob.core.windows.net", "", "https://mine1.blob.core.windows.net"},
		"a zone of its own":           {"https://mine1.z9.blob.storage.azure.net", "", "https://mine1.z9.blob.storage.azure.net"},
		"an emulator":                 {"http://127.0.0.1:10000", "", "http://127.0.0.1:10000/mine1"},
		"an emulator with its path":   {"http://127.0.0.1:10000/mine1/", "", "http://127.0.0.1:10000/mine1"},
		"an emulator behind a prefix": {"https://host/blob", "", "https://host/blob/mine1"},
		"a name that only begins so":  {"https://mine12.example", "", "https://mine12.example/mine1"},
	}
	for name, c := range cases {
		o, err := Options{Account: "mine1", Container: "backups", Endpoint: c.endpoint, Domain: c.domain}.complete()
		if err != nil || o.Endpoint != c.want {
			t.Errorf("%s: %q, %v; want %q", name, o.Endpoint, err, c.want)
		}
	}
}

func FuzzAnEndpointIsAURLOrAnErrorOfOneLineWithoutSecrets(f *testing.F) {
	for _, s := range []string{"", "https://mine1.blob.core.windows.net", "127.0.0.1:10000/mine1", "http://u:hunter2@h", "h?sig=hunter2", "://", "https://[::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		o, err := Options{Account: "mine1", Container: "backups", Endpoint: endpoint}.complete()
		if err != nil {
			for _, r := range err.Error() {
				if r == '\n' {
					t.Errorf("%q is more than one line", err)
				}
			}
			return
		}
		again, err := o.complete()
		if err != nil || again.Endpoint != o.Endpoint {
			t.Errorf("%q becomes %q and then %q, %v", endpoint, o.Endpoint, again.Endpoint, err)
		}
	})
}
