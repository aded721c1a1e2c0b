package crdtest

// ofOperatorTasks are the cases of EtcdOperatorTasks and EtcdOpsTasks.
func ofOperatorTasks() []Case {
	made := func(plural, name string, change Set, field, says string) Case {
		return Case{Name: name, Plural: plural, Change: change, Field: field, Says: says}
	}
	task := func(name string, change Set, field, says string) Case {
		return made("etcdoperatortasks", name, change, field, says)
	}
	ops := func(name string, change Set, field, says string) Case {
		return made("etcdopstasks", name, change, field, says)
	}
	standing := func(kind, config string) Set {
		s := Set{"spec.type": kind, "spec.config": nil}
		if config != "" {
			s["spec.config"] = config
		}
		return s
	}
	extension := func(config string) Set { return standing("ExtendFullSnapshotImmutability", config) }
	collection := func(config string) Set { return standing("CollectBackups", config) }
	exclusion := func(config string) Set { return standing("ExcludeSnapshots", config) }
	const full = "Full-00000000-00009002-1565021494.zst"
	const snapshot, schedule = "spec.config.onDemandSnapshot", "must be a schedule of cron"
	cases := []Case{
		task("a task of an unknown type is refused", Set{"spec.type": "Defragmentation"}, "spec.type", `"ExtendFullSnapshotImmutability"`),
		task("a type with Task at the end is taken", Set{"spec.type": "OnDemandSnapshotTask"}, "", ""),
		task("a task without its Etcd is refused", Set{"spec.ownerEtcdReference": nil}, "spec.ownerEtcdReference", "write ownerEtcdReference: {name: NAME-OF-THE-ETCD}"),
		task("the misspelt name of the Etcd is refused", Set{"spec.ownerEtcdReference": nil, "spec.ownerEtcdRefrence": `{name: etcd-main, namespace: default}`}, "spec.ownerEtcdRefrence", "is misspelt: write ownerEtcdReference"),
		task("the misspelt name with the fields of the original is refused", Set{"spec.ownerEtcdReference": nil, "spec.ownerEtcdRefrence": `{Name: etcd-main, Namespace: default}`}, "spec.ownerEtcdRefrence", "is misspelt: write ownerEtcdReference"),
		task("the misspelt name beside the right one is refused", Set{"spec.ownerEtcdRefrence": `{name: etcd-main}`}, "spec.ownerEtcdRefrence", "is misspelt: write ownerEtcdReference"),
		task("the misspelt name with a text is refused", Set{"spec.ownerEtcdReference": nil, "spec.ownerEtcdRefrence": "default/etcd-main"}, "spec.ownerEtcdRefrence", "ownerEtcdReference: {name: NAME-OF-THE-ETCD}"),
		task("an Etcd as text is refused with the new form", Set{"spec.ownerEtcdReference": "default/etcd-main"}, "spec.ownerEtcdReference", "ownerEtcdReference: {name: NAME-OF-THE-ETCD}"),
		task("an Etcd with its namespace is taken", Set{"spec.ownerEtcdReference": `{name: etcd-main, namespace: default}`}, "", ""),
		task("a configuration as text is refused with the new form", Set{"spec.config": "type: full\n"}, "spec.config", "config: {onDemandSnapshot: {type: full}}"),
		task("a snapshot without a configuration is refused", Set{"spec.config": nil}, "spec.config", "write config: {onDemandSnapshot: {type: full}}"),
		task("a snapshot with another type's configuration is refused", Set{"spec.config": `{extendFullSnapshotImmutability: {}}`}, "spec.config", "write type: ExtendFullSnapshotImmutability"),
		task("a snapshot with a schedule is refused", Set{"spec.config.schedule": "@daily"}, "spec.config", "write type: ExtendFullSnapshotImmutability"),
		task("a snapshot of no type is refused", Set{snapshot + ".type": nil}, snapshot+".type", "Required value"),
		task("a snapshot of an unknown type is refused", Set{snapshot + ".type": "incremental"}, snapshot+".type", `"delta"`),
		task("a final delta is refused", Set{snapshot: `{type: delta, isFinal: true}`}, snapshot+".isFinal", "write type: full, or leave isFinal out"),
		task("a delta that says it is not final is taken", Set{snapshot: `{type: delta, isFinal: false, timeoutSecondsDelta: 10}`}, "", ""),
		task("too little time for a full is refused", Set{snapshot + ".timeoutSecondsFull": 119}, snapshot+".timeoutSecondsFull", "greater than or equal to 120"),
		task("too little time for a delta is refused", Set{snapshot + ".timeoutSecondsDelta": 9}, snapshot+".timeoutSecondsDelta", "greater than or equal to 10"),
		task("a time to live below nothing is refused", Set{"spec.ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished", "greater than or equal to 0"),
		task("no time to live is taken", Set{"spec.ttlSecondsAfterFinished": 0}, "", ""),

		task("an extension without a configuration is taken", extension(""), "", ""),
		task("an extension with its schedule is taken", extension(`{extendFullSnapshotImmutability: {schedule: 0 */6 * * *}}`), "", ""),
		task("an extension with a flat schedule is taken", extension(`{schedule: 0 0 * * *}`), "", ""),
		task("an extension with two schedules is refused", extension(`{schedule: 0 0 * * *, extendFullSnapshotImmutability: {}}`), "spec.config.schedule", "stands twice"),
		task("an extension with a snapshot's configuration is refused", extension(`{onDemandSnapshot: {type: full}}`), "spec.config.onDemandSnapshot", "write type: OnDemandSnapshot"),
		task("an extension four fields of whose schedule are there is refused", extension(`{extendFullSnapshotImmutability: {schedule: 0 0 * *}}`), "spec.config.extendFullSnapshotImmutability.schedule", schedule),
		task("an extension whose flat schedule is no schedule is refused", extension(`{schedule: "@fortnightly"}`), "spec.config.schedule", schedule),

		task("a collection without a configuration is taken", collection(""), "", ""),
		task("a collection with its schedule is taken", collection(`{collectBackups: {schedule: 17 */6 * * *}}`), "", ""),
		task("a collection with an extension's schedule is refused", collection(`{schedule: "@daily"}`), "spec.config", "write type: ExtendFullSnapshotImmutability"),
		task("a collection whose schedule is no schedule is refused", collection(`{collectBackups: {schedule: at noon}}`), "spec.config.collectBackups.schedule", schedule),
		task("an exclusion is taken", exclusion(`{excludeSnapshots: {names: [`+full+`, Incr-00009003-00009120-1565021514.gz.final], reason: the faulty release, leaveNothing: true}}`), "", ""),
		task("an inclusion is taken", exclusion(`{excludeSnapshots: {names: [`+full+`], include: true}}`), "", ""),
		task("an exclusion without a configuration is refused", exclusion(""), "spec.config", "write config: {excludeSnapshots: {names: [NAME-OF-A-SNAPSHOT]}}"),
		task("an exclusion with a snapshot's configuration is refused", exclusion(`{excludeSnapshots: {names: [`+full+`]}, onDemandSnapshot: {type: full}}`), "spec.config.onDemandSnapshot", "write type: OnDemandSnapshot"),
		task("a collection with an exclusion's configuration is refused", collection(`{excludeSnapshots: {names: [`+full+`]}}`), "spec.config.excludeSnapshots", "write type: ExcludeSnapshots"),
		task("an exclusion of nothing is refused", exclusion(`{excludeSnapshots: {names: []}}`), "spec.config.excludeSnapshots.names", "at least 1"),
		task("an exclusion without names is refused", exclusion(`{excludeSnapshots: {}}`), "spec.config.excludeSnapshots.names", "Required value"),
		task("an exclusion of one snapshot twice is refused", exclusion(`{excludeSnapshots: {names: [`+full+`, `+full+`]}}`), "spec.config.excludeSnapshots.names[1]", "Duplicate value"),
		task("an exclusion by key is refused", exclusion(`{excludeSnapshots: {names: [v2/`+full+`]}}`), "spec.config.excludeSnapshots.names[0]", "without its directory"),
		task("an exclusion of what is a flag is refused", exclusion(`{excludeSnapshots: {names: [--yes-leave-nothing]}}`), "spec.config.excludeSnapshots.names[0]", "must be the name of a snapshot"),
		task("an inclusion with a reason is refused", exclusion(`{excludeSnapshots: {names: [`+full+`], include: true, reason: mended}}`), "spec.config.excludeSnapshots.reason", "does not go with include: true"),
		task("an inclusion that leaves nothing is refused", exclusion(`{excludeSnapshots: {names: [`+full+`], include: true, leaveNothing: true}}`), "spec.config.excludeSnapshots.leaveNothing", "does not go with include: true"),
		task("an inclusion that says it does not leave nothing is taken", exclusion(`{excludeSnapshots: {names: [`+full+`], include: true, leaveNothing: false}}`), "", ""),
		task("an exclusion of what names a variable is refused", exclusion(`{excludeSnapshots: {names: [Full-00000000-00009002-1565021494.$(HOME)]}}`), "spec.config.excludeSnapshots.names[0]", "must be the name of a snapshot"),
		task("a reason of several lines is refused", exclusion(`{excludeSnapshots: {names: [`+full+`], reason: "the faulty\nrelease"}}`), "spec.config.excludeSnapshots.reason", "must be one line"),
		task("a reason in any language is taken", exclusion(`{excludeSnapshots: {names: [`+full+`], reason: "fehlerhafte Übung №1"}}`), "", ""),
		task("an extension with a collection's configuration is refused", extension(`{collectBackups: {}}`), "spec.config.collectBackups", "write type: CollectBackups"),

		ops("the original's task without a configuration is refused", Set{"spec.config": nil}, "spec.config", "Required value"),
		ops("the original's task with an empty configuration is refused", Set{"spec.config": `{}`}, "spec.config", "at least 1 properties"),
		ops("the original's task without an Etcd is taken", Set{"spec.etcdName": nil}, "", ""),
		ops("a final delta by the original's task is refused", Set{snapshot: `{type: delta, isFinal: true}`}, snapshot+".isFinal", "write type: full, or leave isFinal out"),
		ops("no time to live of the original's task is refused", Set{"spec.ttlSecondsAfterFinished": 0}, "spec.ttlSecondsAfterFinished", "greater than or equal to 1"),
	}
	for plural, change := range map[string]Set{
		"etcdoperatortasks": {"spec.ttlSecondsAfterFinished": 7},
		"etcdopstasks":      {"spec.etcdName": "etcd-events"},
	} {
		cases = append(cases,
			Case{Name: "changing one of the " + plural + " is refused", Plural: plural, Update: true, Change: change, Field: "spec", Says: "cannot be changed: make another task"},
			Case{Name: "labelling one of the " + plural + " is taken", Plural: plural, Update: true, Change: Set{"metadata.labels": `{a: b}`}})
	}
	return cases
}
