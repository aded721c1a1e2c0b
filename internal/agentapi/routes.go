package agentapi

import (
	"net/http"
	"slices"
	"strings"
)

// Access says who may call.
type Access string

// The kinds of access. What changes anything or reveals content needs a client certificate or a
// bearer token.
const (
	Open     Access = "open"     // anybody: probes and metrics
	Verified Access = "verified" // who shows a trusted client certificate or the token
)

// The paths. Those of the original are InitStart to Metrics.
const (
	InitStart  = "/initialization/start"
	InitStatus = "/initialization/status"
	Full       = "/snapshot/full"
	Delta      = "/snapshot/delta"
	Latest     = "/snapshot/latest"
	Config     = "/config"
	Healthz    = "/healthz"
	Metrics    = "/metrics"

	InitAcknowledge = "/initialization/acknowledge"
	MemberPath      = "/member"
	TimelinePath    = "/timeline"
	Defragment      = "/defragment"
	Verify          = "/verify"
	Compact         = "/compact"
	Operations      = "/operations"
	Clients         = "/clients"
	Profiles        = "/debug/pprof/"
)

// Route is one row of the interface.
type Route struct {
	Path    string
	Methods []string
	Access  Access
	// Leader: only the backup leader can answer; other sidecars pass the call on to it.
	Leader bool
	// Doc is for the reference page.
	Doc string
}

var (
	read   = []string{http.MethodGet, http.MethodHead}
	change = []string{http.MethodPost}
	either = []string{http.MethodGet, http.MethodPost} // the original's callers use both
)

// Routes is the whole interface.
func Routes() []Route {
	return []Route{
		{InitStart, either, Verified, false, "begin the initialization; mode=full or sanity, anything else is full. 200 and an empty body, also if it has begun already"},
		{InitStatus, read, Open, false, "New, Progress, Successful or Failed, as text"},
		{InitAcknowledge, change, Verified, false, "the outcome was seen: the status is New again. The wrapper calls it before each start of etcd"},
		{Full, either, Verified, true, "take a full snapshot and answer with it; final=true marks it as the last one before a planned stop, and for=TEXT says which: the newest final full is given again only for the same and if nothing has changed"},
		{Delta, either, Verified, true, "upload what is not in the bucket yet and answer with the last delta, or null if there is nothing"},
		{Latest, read, Verified, true, "the newest full and the deltas after it"},
		{Config, read, Verified, false, "the configuration file for this member's etcd, as YAML"},
		{Healthz, read, Open, false, `{"health":true}, or 503 and {"health":false}`},
		{Metrics, read, Open, false, "metrics of Prometheus"},
		{MemberPath, read, Verified, false, "everything the sidecar knows about its member"},
		{TimelinePath, read, Verified, true, "what the bucket holds, chain by chain"},
		{Defragment, change, Verified, true, "defragment all members, one at a time; answers when it has begun, see /operations"},
		{Verify, change, Verified, true, "prove that the newest chain can be restored; answers when it has begun, see /operations"},
		{Compact, change, Verified, true, "replay the newest chain into one new full; answers when it has begun, see /operations"},
		{Operations, read, Verified, false, "long operations of this sidecar, those that go on and the last of each kind, with their progress"},
		{Clients, change, Verified, false, "refuse=10m has this member's etcd refuse its clients for so long, at most 30m, but for sidecars with a token of token-file, and ends what they have under way; refuse=0s admits them again. Answers for how long they have been refused, and still will be"},
		{Profiles, read, Verified, false, "profiles of Go and what lies below, only with --enable-profiling"},
	}
}

// Find returns the route of a path; false: there is none. Only Profiles has paths below it.
func Find(path string) (Route, bool) {
	for _, r := range Routes() {
		if r.Path == path || r.Path == Profiles && strings.HasPrefix(path, Profiles) {
			return r, true
		}
	}
	return Route{}, false
}

// Allows reports whether the route takes the method.
func (r Route) Allows(method string) bool { return slices.Contains(r.Methods, method) }

// InitState is the progress of an initialization, in the original's words.
type InitState string

// The states of an initialization.
const (
	InitNew        InitState = "New"
	InitProgress   InitState = "Progress"
	InitSuccessful InitState = "Successful"
	InitFailed     InitState = "Failed"
)

// ValidationMode says how closely the data are examined.
type ValidationMode string

// The modes.
const (
	ValidateFull   ValidationMode = "full"   // every page and record
	ValidateSanity ValidationMode = "sanity" // quick looks, enough after a clean exit
)

// ParseValidationMode reads the parameter mode of InitStart. Everything but "sanity" is full, as in
// the original: who does not say how the member ended gets the careful one.
func ParseValidationMode(s string) ValidationMode {
	if s == string(ValidateSanity) {
		return ValidateSanity
	}
	return ValidateFull
}
