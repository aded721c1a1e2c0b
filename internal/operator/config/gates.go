package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Gate is the name of a feature that can be switched while it is new.
type Gate string

// The gates of the original. Both features are part of this operator, so both are locked.
const (
	// UseEtcdWrapper has etcd run by the wrapper.
	UseEtcdWrapper Gate = "UseEtcdWrapper"
	// UpgradeEtcdVersion runs the newer of the original's two etcds. There is only one here, and it
	// is newer than both.
	UpgradeEtcdVersion Gate = "UpgradeEtcdVersion"
)

// stage is how far a feature has come: alpha is off unless switched on, beta on unless switched
// off, ga cannot be switched.
type stage string

const (
	alpha stage = "Alpha"
	beta  stage = "Beta"
	ga    stage = "GA"
)

// gate is a row of the table of features.
type gate struct {
	name   Gate
	stage  stage
	doc    string
	locked string // ga: why it cannot be off
}

func (g gate) byDefault() bool { return g.stage != alpha }

var gates = []gate{
	{
		name: UpgradeEtcdVersion, stage: ga,
		doc:    "Clusters run etcd 3.6. In the original this gate (Alpha, off) chose etcd 3.5 over 3.4.",
		locked: "this operator has no older etcd; a cluster on etcd 3.4 is brought to 3.5 by the original, or moved through its bucket, before it is taken over",
	},
	{
		name: UseEtcdWrapper, stage: ga,
		doc:    "etcd is run by etcd-wrapper, with a backup sidecar that goes with it.",
		locked: "there is no other way to run etcd here",
	},
}

// checkGates reports gates that are not in the table and attempts to switch what is locked.
func checkGates(table []gate, set map[string]bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		i := slices.IndexFunc(table, func(g gate) bool { return string(g.name) == name })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("there is no feature gate %q: remove it; there are %s", name, gateNames(table)))
		case table[i].stage == ga && !set[name]:
			errs = append(errs, fmt.Errorf("%s is %s and cannot be false: remove it; %s", name, ga, table[i].locked))
		}
	}
	return errors.Join(errs...)
}

func gateNames(table []gate) string {
	var names []string
	for _, g := range table {
		names = append(names, string(g.name))
	}
	return strings.Join(names, ", ")
}

// parseGates reads "A=true,B=false".
func parseGates(text string) (map[string]bool, error) {
	set := map[string]bool{}
	var errs []error
	for _, pair := range strings.Split(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, state, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(state))
		_, twice := set[name]
		switch {
		case !ok || err != nil || name == "":
			errs = append(errs, fmt.Errorf("%q does not switch a feature gate: write it like %s=true", pair, UseEtcdWrapper))
		case twice && set[name] != on:
			errs = append(errs, fmt.Errorf("feature gate %s is given as true and as false: decide for one", name))
		default:
			set[name] = on
		}
	}
	return set, errors.Join(errs...)
}
