package stores_test

import (
	"net/http"
	"testing"

	"druid.internal/druid/test/stores"
)

func TestAzuriteAnswersOnlyToClientsThatTrustItsCA(t *testing.T) {
	a := stores.RunAzurite(t)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.ClientTLS(), DisableKeepAlives: true}}
	resp, err := client.Get(a.Endpoint + "/nothing?restype=container")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("without credentials: %s, want a refusal", resp.Status)
	}
	if resp, err := http.Get(a.Endpoint); err == nil {
		resp.Body.Close()
		t.Error("a client without the CA connected")
	}
}
