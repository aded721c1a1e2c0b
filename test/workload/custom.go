package workload

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// customResource is stored as JSON, as everything is that the API server has no Go type for.
type customResource struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   customMetadata  `json:"metadata"`
	Spec       map[string]item `json:"spec"`
	Status     customStatus    `json:"status"`
}

type customMetadata struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	UID        string `json:"uid"`
	Generation int    `json:"generation"`
}

type item struct {
	Class     string `json:"class"`
	Enabled   bool   `json:"enabled"`
	Name      string `json:"name"`
	SecretRef string `json:"secretRef"`
}

type customStatus struct {
	Conditions         []customCondition `json:"conditions"`
	LastOperation      customOperation   `json:"lastOperation"`
	ObservedGeneration int               `json:"observedGeneration"`
}

type customCondition struct {
	Type           string `json:"type"`
	Status         string `json:"status"`
	Reason         string `json:"reason"`
	Message        string `json:"message"`
	LastUpdateTime string `json:"lastUpdateTime"`
}

type customOperation struct {
	Description    string `json:"description"`
	LastUpdateTime string `json:"lastUpdateTime"`
	Progress       int    `json:"progress"`
	State          string `json:"state"`
	Type           string `json:"type"`
}

// newCustomResources makes custom resources whose controller reports that all is still well.
func newCustomResources(k *Kubernetes, n int) kind {
	all := make([]*customResource, n)
	for i := range all {
		o := &customResource{APIVersion: "extensions.example.org/v1alpha1", Kind: "Extension", Spec: map[string]item{},
			Metadata: customMetadata{Name: fmt.Sprintf("extension-%05d", i), Namespace: namespace(i), UID: string(k.uid()), Generation: 3}}
		for f := range 12 {
			o.Spec[fmt.Sprintf("field%02d", f)] = item{Class: "shared", Enabled: true, Name: k.hex(12), SecretRef: k.hex(20)}
		}
		all[i] = o
	}
	put := func(i int) *mvccpb.Event {
		o := all[i]
		b, err := json.Marshal(o)
		if err != nil {
			panic(err) // no field can fail to marshal
		}
		return k.put("/registry/extensions.example.org/extensions/"+o.Metadata.Namespace+"/"+o.Metadata.Name, append(b, '\n'), 0)
	}
	return kind{share: 6, count: n, put: put, change: func() *mvccpb.Event {
		i, now := k.rnd.IntN(n), k.now.Format("2006-01-02T15:04:05Z07:00")
		all[i].Status = customStatus{
			Conditions: []customCondition{
				{"Healthy", "True", "Reconciled", "all checks passed", now},
				{"ControlPlaneHealthy", "True", "Ready", "all components are ready", now}},
			LastOperation:      customOperation{Description: "reconciled the extension", LastUpdateTime: now, Progress: 100, State: "Succeeded", Type: "Reconcile"},
			ObservedGeneration: 3,
		}
		return put(i)
	}}
}
