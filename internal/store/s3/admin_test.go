package s3

import (
	"encoding/pem"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"druid.internal/druid/internal/backup/immutability"
	"druid.internal/druid/internal/store"
	"druid.internal/druid/internal/store/admin"
)

// service is as much of S3 as the administration of one bucket asks for, with what no server of the
// tests does: locks that are allowed later, other people's lifecycle rules.
type service struct {
	mu         sync.Mutex
	exists     bool
	versioning string
	lock       string // the configuration; empty: none
	called     string // the name that it gives itself
	onlyNew    bool   // it has locks for new buckets alone, as MinIO says of itself
	eager      bool   // it allows locks before versions are kept
	policy     string
	lifecycle  string
	retention  map[string]string // of each key's only version
	created    map[string]time.Time
	refuse     func(*http.Request) (status int, code string) // 0: nothing
	puts       []string
}

func (f *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if f.called != "" {
		w.Header().Set("Server", f.called)
	}
	no := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	}
	if f.refuse != nil {
		if status, code := f.refuse(r); status != 0 {
			no(status, code)
			return
		}
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	if r.Method == http.MethodPut {
		f.puts = append(f.puts, r.URL.RawQuery)
	}
	keep := func(into *string, missing string) {
		switch {
		case r.Method == http.MethodPut:
			*into = string(body)
		case r.Method == http.MethodDelete:
			*into = ""
		case *into == "":
			no(http.StatusNotFound, missing)
		default:
			io.WriteString(w, *into)
		}
	}
	switch {
	case r.URL.Path == "/":
		io.WriteString(w, `<ListAllMyBucketsResult><Owner><ID>me</ID></Owner><Buckets><Bucket><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>`)
	case !f.exists && key == "" && len(q) == 0 && r.Method == http.MethodPut:
		f.exists = true
	case !f.exists:
		no(http.StatusNotFound, "NoSuchBucket")
	case key != "" && r.Method == http.MethodHead:
		w.Header().Set("Last-Modified", f.created[key].UTC().Format(http.TimeFormat))
		w.Header().Set("x-amz-version-id", "1")
		if mode, until, ok := strings.Cut(f.retention[key], " "); ok {
			w.Header().Set("x-amz-object-lock-mode", mode)
			w.Header().Set("x-amz-object-lock-retain-until-date", until)
		}
	case key != "" && q.Has("retention"):
		if r.Method == http.MethodPut {
			var asked struct{ Mode, RetainUntilDate string }
			_ = xml.Unmarshal(body, &asked)
			// As servers do: the mode of a lock changes only for whoever may bypass it.
			if strings.HasPrefix(f.retention[key], "GOVERNANCE") && asked.Mode != "GOVERNANCE" && r.Header.Get("X-Amz-Bypass-Governance-Retention") != "true" {
				no(http.StatusBadRequest, "InvalidRequest")
				return
			}
			until, _ := time.Parse(time.RFC3339, asked.RetainUntilDate)
			f.retention[key] = asked.Mode + " " + until.Truncate(time.Second).Format(time.RFC3339)
			return
		}
		mode, until, ok := strings.Cut(f.retention[key], " ")
		if !ok {
			no(http.StatusNotFound, "NoSuchObjectLockConfiguration")
			return
		}
		fmt.Fprintf(w, "<Retention><Mode>%s</Mode><RetainUntilDate>%s</RetainUntilDate></Retention>", mode, until)
	case q.Has("versioning"):
		if r.Method == http.MethodPut {
			f.versioning = string(body)
			return
		}
		if f.versioning == "" {
			io.WriteString(w, "<VersioningConfiguration/>")
		}
		io.WriteString(w, f.versioning)
	case q.Has("object-lock"):
		if r.Method == http.MethodPut && f.onlyNew {
			w.WriteHeader(http.StatusConflict)
			io.WriteString(w, "<Error><Code>InvalidBucketState</Code><Message>Object Lock configuration cannot be enabled on existing buckets</Message></Error>")
			return
		}
		if r.Method == http.MethodPut && !strings.Contains(f.versioning, "Enabled") && !f.eager {
			no(http.StatusConflict, "InvalidBucketState")
			return
		}
		keep(&f.lock, "ObjectLockConfigurationNotFoundError")
	case q.Has("policy"):
		keep(&f.policy, "NoSuchBucketPolicy")
	case q.Has("lifecycle"):
		keep(&f.lifecycle, "NoSuchLifecycleConfiguration")
	case q.Has("versions"):
		io.WriteString(w, "<ListVersionsResult>")
		var keys []string
		for k := range f.created {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			fmt.Fprintf(w, "<Version><Key>%s</Key><VersionId>1</VersionId><IsLatest>true</IsLatest><LastModified>%s</LastModified><Size>1</Size></Version>", k, f.created[k].UTC().Format(time.RFC3339))
		}
		io.WriteString(w, "</ListVersionsResult>")
	}
}

// administer is an Admin of the bucket b in the service.
func administer(t *testing.T, f *service) *Admin {
	t.Helper()
	server := httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	a, err := NewAdmin(t.Context(), Options{Bucket: "b", Endpoint: server.URL, Attempts: 1,
		TrustedCAs: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		Keys:       func() (Keys, error) { return Keys{AccessKeyID: "k", SecretAccessKey: "s"}, nil }}, admin.Creation{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func do(t *testing.T, a *Admin, s immutability.BucketStep) (string, error) {
	t.Helper()
	return a.Do(t.Context(), s)
}

// compliance is a step about four days of that mode.
func compliance(kind immutability.BucketStepKind) immutability.BucketStep {
	return immutability.BucketStep{Do: kind, Mode: immutability.ModeCompliance, Period: immutability.Period(96 * time.Hour)}
}

// The answer to a HEAD has no body, so the server does not say there what is wrong.
func TestWhyABucketCannotBeLookedAtIsAskedFor(t *testing.T) {
	for phrase, c := range map[string]struct {
		head int
		get  int
		code string
		want error
		says string
	}{
		"a wrong secret":          {http.StatusForbidden, http.StatusForbidden, "SignatureDoesNotMatch", store.ErrCredentials, "check secretAccessKey"},
		"a session that is over":  {http.StatusBadRequest, http.StatusBadRequest, "ExpiredToken", store.ErrCredentials, "renew the token"},
		"no name of a bucket":     {http.StatusBadRequest, http.StatusBadRequest, "InvalidBucketName", store.ErrBucketName, "the name of the bucket or container is not allowed"},
		"no right":                {http.StatusForbidden, http.StatusForbidden, "AccessDenied", store.ErrForbidden, "grant s3:ListBucket "},
		"no right to look so far": {http.StatusForbidden, http.StatusOK, "", store.ErrForbidden, "grant s3:ListBucket "},
	} {
		f := &service{exists: true, refuse: func(r *http.Request) (int, string) {
			switch {
			case r.Method == http.MethodHead:
				return c.head, ""
			case c.get != http.StatusOK:
				return c.get, c.code
			}
			return 0, ""
		}}
		if _, err := administer(t, f).Read(t.Context()); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", phrase, err, c.says)
		}
	}
}

func TestLocksAreAllowedLaterWhereTheServerCan(t *testing.T) {
	f := &service{exists: true}
	a := administer(t, f)
	var refusal *immutability.BucketRefusal
	if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketObjectLock}); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "etcdbrctl copy") {
		t.Errorf("without versions: %v", err)
	}
	for _, want := range []immutability.BucketStepKind{immutability.BucketVersions, immutability.BucketSuspend} {
		if _, err := do(t, a, immutability.BucketStep{Do: want}); err != nil {
			t.Fatal(err)
		}
		if b, err := a.Read(t.Context()); err != nil || b.Versioned != (want == immutability.BucketVersions) {
			t.Errorf("%s: %+v, %v", want, b, err)
		}
	}
	for _, s := range []immutability.BucketStep{{Do: immutability.BucketVersions}, {Do: immutability.BucketObjectLock}, compliance(immutability.BucketPolicy)} {
		if _, err := do(t, a, s); err != nil {
			t.Fatal(err)
		}
	}
	b, err := a.Read(t.Context())
	if err != nil || !b.Versioned || !b.ObjectLock || b.Mode != immutability.ModeCompliance || b.Period.Duration() != 96*time.Hour {
		t.Errorf("%+v, %v", b, err)
	}
}

// Whether locks can be had is what the server answers, and not what it is called: a MinIO after those that we know may have them.
func TestLocksAreAskedForWhateverTheServerIsCalled(t *testing.T) {
	wish := immutability.BucketWish{Type: immutability.ByBucket, Period: immutability.Period(96 * time.Hour), Mode: immutability.ModeCompliance}
	for phrase, c := range map[string]struct {
		f        *service
		refused  string // in the error; empty: it has locks then
		versions bool   // it keeps them then
	}{
		"it has them for every bucket":          {&service{exists: true}, "", true},
		"for one that keeps versions":           {&service{exists: true, versioning: enabled}, "", true},
		"for new buckets alone":                 {&service{exists: true, onlyNew: true}, "etcdbrctl copy", false},
		"for new ones, and this keeps versions": {&service{exists: true, onlyNew: true, versioning: enabled}, "etcdbrctl copy", true},
		"it is busy": {&service{exists: true, refuse: func(r *http.Request) (int, string) {
			if r.Method == http.MethodPut && r.URL.Query().Has("object-lock") {
				return http.StatusServiceUnavailable, "SlowDown"
			}
			return 0, ""
		}}, "SlowDown", false},
		"not for this identity": {&service{exists: true, refuse: func(r *http.Request) (int, string) {
			if r.Method == http.MethodPut && r.URL.Query().Has("object-lock") {
				return http.StatusForbidden, "AccessDenied"
			}
			return 0, ""
		}}, "AccessDenied", false},
	} {
		c.f.called = "MinIO"
		a := administer(t, c.f)
		before, err := a.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rules, _ := immutability.RulesOf("S3")
		plan, err := immutability.PlanBucket(before, wish, rules)
		if err != nil {
			t.Errorf("%s: it is not even planned: %v", phrase, err)
			continue
		}
		for _, s := range plan.Steps {
			if _, err = do(t, a, s); err != nil {
				break
			}
		}
		after, readErr := a.Read(t.Context())
		if readErr != nil {
			t.Fatal(readErr)
		}
		if c.refused == "" && (err != nil || !after.ObjectLock) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || after.ObjectLock) || after.Versioned != c.versions {
			t.Errorf("%s: %v, versions %t, locks %t", phrase, err, after.Versioned, after.ObjectLock)
		}
		if versions := slices.Contains(c.f.puts, "versioning="); c.refused != "" && versions {
			t.Errorf("%s: refused, it was asked for versions: %q", phrase, c.f.puts)
		}
	}
}

func TestLocksThatWereAllowedWithoutVersionsAreTold(t *testing.T) {
	f := &service{exists: true, eager: true, refuse: func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut && r.URL.Query().Has("versioning") {
			return http.StatusForbidden, "AccessDenied"
		}
		return 0, ""
	}}
	_, err := do(t, administer(t, f), immutability.BucketStep{Do: immutability.BucketVersions})
	if !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "object lock is on now, which cannot be taken back, and versions are not") {
		t.Errorf("%v", err)
	}
}

// enabled is how a server says that a bucket keeps versions.
const enabled = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`

func TestADefaultThatSomebodyMadeStrongerMeanwhileIsNotMadeWeaker(t *testing.T) {
	for _, rule := range []string{"<Mode>COMPLIANCE</Mode><Days>5</Days>", "<Mode>GOVERNANCE</Mode><Years>1</Years>"} {
		f := &service{exists: true, versioning: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
			lock: "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>" + rule + "</DefaultRetention></Rule></ObjectLockConfiguration>"}
		before := f.lock
		if _, err := do(t, administer(t, f), compliance(immutability.BucketPolicy)); !errors.Is(err, admin.ErrWeaker) || f.lock != before {
			t.Errorf("%s: %v; it is %s", rule, err, f.lock)
		}
	}
}

func TestWhatIsThereIsLockedAsIfTheDefaultHadAlwaysBeenThis(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	young := now.Add(-time.Hour)
	full := stamp(young.Add(96 * time.Hour))
	f := &service{exists: true,
		created: map[string]time.Time{"none": young, "shorter": young, "weaker": young, "longer": young, "same": young, "old": now.Add(-97 * time.Hour)},
		retention: map[string]string{"shorter": "COMPLIANCE " + stamp(young.Add(24*time.Hour)), "weaker": "GOVERNANCE " + full,
			"longer": "COMPLIANCE " + stamp(young.Add(200*time.Hour)), "same": "COMPLIANCE " + full}}
	said, err := do(t, administer(t, f), compliance(immutability.BucketLengthen))
	if err != nil || !strings.Contains(said, "3 versions lengthened, 2 were locked for long enough, 1 are older") {
		t.Errorf("%q, %v", said, err)
	}
	for key, want := range map[string]string{"none": "COMPLIANCE " + full, "shorter": "COMPLIANCE " + full, "weaker": "COMPLIANCE " + full,
		"longer": "COMPLIANCE " + stamp(young.Add(200*time.Hour)), "same": "COMPLIANCE " + full, "old": ""} {
		if f.retention[key] != want {
			t.Errorf("%s is %q, want %q", key, f.retention[key], want)
		}
	}
	// Governance does not weaken what is compliance.
	s := compliance(immutability.BucketLengthen)
	s.Mode, s.Period = immutability.ModeGovernance, immutability.Period(150*time.Hour)
	if _, err := do(t, administer(t, f), s); err != nil || !strings.HasPrefix(f.retention["same"], "COMPLIANCE ") {
		t.Errorf("%q, %v", f.retention["same"], err)
	}
}

// A server keeps whole seconds of a lock, and counts it from the beginning of an upload, whose end is the creation.
func TestALockThatTheDefaultGaveIsNotLengthenedByASecond(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	lock := func(early time.Duration) string {
		return "COMPLIANCE " + now.Add(96*time.Hour-early).UTC().Format(time.RFC3339)
	}
	f := &service{exists: true, created: map[string]time.Time{"canary": now, "upload": now, "shorter": now},
		retention: map[string]string{"canary": lock(time.Second), "upload": lock(20 * time.Second), "shorter": lock(2 * time.Minute)}}
	// Ceph keeps parts of a second of what the default gives, and not of what it is told.
	f.created["weaker"] = now
	f.retention["weaker"] = "GOVERNANCE " + now.Add(96*time.Hour-time.Second+300*time.Millisecond).UTC().Format(time.RFC3339Nano)
	a := administer(t, f)
	for _, want := range []string{"2 versions lengthened, 2 were locked for long enough", "0 versions lengthened, 4 were locked for long enough"} {
		said, err := do(t, a, compliance(immutability.BucketLengthen))
		if err != nil || !strings.Contains(said, want) {
			t.Errorf("%q, %v; want %q", said, err, want)
		}
	}
	want := map[string]string{"canary": lock(time.Second), "upload": lock(20 * time.Second), "shorter": lock(0), "weaker": lock(0)}
	if !maps.Equal(f.retention, want) {
		t.Errorf("%v, want %v", f.retention, want)
	}
}

func TestALockThatCannotBeSetIsNamedAndEndsTheWalk(t *testing.T) {
	f := &service{exists: true, created: map[string]time.Time{"a/key": time.Now()}, retention: map[string]string{},
		refuse: func(r *http.Request) (int, string) {
			if r.Method == http.MethodPut {
				return http.StatusForbidden, "AccessDenied"
			}
			return 0, ""
		}}
	if _, err := do(t, administer(t, f), compliance(immutability.BucketLengthen)); !errors.Is(err, store.ErrForbidden) || !strings.Contains(err.Error(), "a/key@1") {
		t.Errorf("%v", err)
	}
}

func TestLifecycleRulesThatWouldLoseSomethingAreNotWrittenAgain(t *testing.T) {
	const theirs = "<LifecycleConfiguration><Rule><ID>theirs</ID><Status>Enabled</Status><Filter><Prefix>x/</Prefix></Filter>%s<Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>"
	f := &service{exists: true, lifecycle: fmt.Sprintf(theirs, "<Novelty>1</Novelty>")}
	if _, err := do(t, administer(t, f), immutability.BucketStep{Do: immutability.BucketUploads}); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "Novelty") || len(f.puts) > 0 {
		t.Errorf("%v, and it wrote %v", err, f.puts)
	}
	f.lifecycle = fmt.Sprintf(theirs, "")
	a := administer(t, f)
	for range 2 {
		if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketUploads}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.puts) != 1 || !strings.Contains(f.lifecycle, "<ID>theirs</ID>") || !strings.Contains(f.lifecycle, "<Days>3</Days>") || strings.Count(f.lifecycle, uploadsRule) != 1 {
		t.Errorf("it wrote %v: %s", f.puts, f.lifecycle)
	}
	if b, err := a.Read(t.Context()); err != nil || !b.AbortsUploads {
		t.Errorf("%+v, %v", b, err)
	}
}

func TestStatementsOfOthersStayAndOursAreKnownHoweverTheyAreWritten(t *testing.T) {
	const theirs = `{"Sid":"Theirs","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}`
	f := &service{exists: true, policy: `{"Version":"2012-10-17","Id":"kept","Statement":` + theirs + `}`}
	a := administer(t, f)
	for _, g := range immutability.Guards() {
		if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketGuard, Guard: g}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := a.Read(t.Context())
	if err != nil || !slices.Equal(b.Guards, immutability.Guards()) {
		t.Errorf("%v, %v", b.Guards, err)
	}
	for _, want := range []string{theirs, `"Id":"kept"`, `"aws:SecureTransport":"false"`, `"s3:TlsVersion":"1.2"`} {
		if !strings.Contains(f.policy, want) {
			t.Errorf("%s is not in %s", want, f.policy)
		}
	}
	if strings.Count(f.policy, "SecureTransport") != 1 || strings.Contains(strings.Split(f.policy, "SecureTransport")[1][:30], "TlsVersion") {
		t.Errorf("plain HTTP and old TLS must be two statements: %s", f.policy)
	}
	written := len(f.puts)
	// As servers write it: lists of one, in another order.
	f.policy = strings.Replace(f.policy, `"Principal":"*"`, `"Principal":{"AWS":["*"]}`, 1)
	if b, err = a.Read(t.Context()); err != nil || len(b.Guards) != 4 {
		t.Errorf("%v, %v", b.Guards, err)
	}
	// Changed by somebody so that it denies less, it is not there, and is made again.
	f.policy = strings.Replace(f.policy, `"s3:PutBucketVersioning",`, "", 1)
	if b, err = a.Read(t.Context()); err != nil || slices.Contains(b.Guards, immutability.GuardSettings) {
		t.Errorf("%v, %v", b.Guards, err)
	}
	if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketGuard, Guard: immutability.GuardSettings}); err != nil || strings.Count(f.policy, "DruidDenySettings") != 1 || len(f.puts) != written+1 {
		t.Errorf("%v: %s", err, f.policy)
	}
	for _, g := range immutability.Guards() {
		if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketLift, Guard: g}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(f.policy, "Druid") || !strings.Contains(f.policy, theirs) {
		t.Errorf("lifted: %s", f.policy)
	}
}

// Nobody shall be warned of a right that a statement denies to everybody.
func TestWhoCanShortenTheDefaultLockDependsOnTheStatement(t *testing.T) {
	f := &service{exists: true, versioning: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
		lock: "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>4</Days></DefaultRetention></Rule></ObjectLockConfiguration>"}
	a := administer(t, f)
	for _, guarded := range []bool{false, true} {
		if guarded {
			if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketGuard, Guard: immutability.GuardSettings}); err != nil {
				t.Fatal(err)
			}
		}
		b, err := a.Read(t.Context())
		notes := strings.Join(b.Notes, "\n")
		if err != nil || strings.Contains(notes, "by whoever holds s3:PutBucketObjectLockConfiguration") == guarded || strings.Contains(notes, "s3:PutBucketPolicy") != guarded {
			t.Errorf("with the statement %t: %v\n%s", guarded, err, notes)
		}
	}
}

func TestAStatementThatKeepsUsOutIsTakenBack(t *testing.T) {
	f := &service{exists: true}
	f.refuse = func(r *http.Request) (int, string) {
		if r.Method == http.MethodHead && strings.Contains(f.policy, "SecureTransport") {
			return http.StatusForbidden, "AccessDenied"
		}
		return 0, ""
	}
	a := administer(t, f)
	if _, err := do(t, a, immutability.BucketStep{Do: immutability.BucketGuard, Guard: immutability.GuardPlainHTTP}); !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "taken back") || f.policy != "" {
		t.Errorf("%v; the policy is %q", err, f.policy)
	}
}

func TestANameThatSomebodyElseTakesIsForeign(t *testing.T) {
	f := &service{refuse: func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut {
			return http.StatusConflict, "BucketAlreadyExists"
		}
		return 0, ""
	}}
	if _, err := do(t, administer(t, f), immutability.BucketStep{Do: immutability.BucketCreate}); !errors.Is(err, admin.ErrForeign) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("%v", err)
	}
	f.refuse = func(r *http.Request) (int, string) {
		if r.Method == http.MethodPut {
			return http.StatusConflict, "BucketAlreadyOwnedByYou"
		}
		return 0, ""
	}
	if said, err := do(t, administer(t, f), immutability.BucketStep{Do: immutability.BucketCreate}); err != nil || said == "" {
		t.Errorf("%q, %v", said, err)
	}
}
