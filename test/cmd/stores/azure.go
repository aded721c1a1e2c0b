package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"druid.internal/druid/test/stores/azworm"
)

// azureKinds are the kinds of containers that can be asked for.
var azureKinds = []string{"plain", "unlocked", "locked", "versions", "versions-unlocked", "versions-locked"}

// serveAzure runs Azurite with immutability before it. What it announces is the environment of a
// client: credentials with the account's key, and an identity for the management API.
func serveAzure(ctx context.Context, opts azworm.ServerOptions, containers, envFile string) error {
	s, err := azworm.Start(ctx, opts)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "druid-azure-")
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	stop := func(err error) error { return errors.Join(err, s.Stop(), os.RemoveAll(temp)) }
	for spec := range strings.SplitSeq(containers, ",") {
		if spec == "" {
			continue
		}
		name, protection, err := parseContainer(spec)
		if err != nil {
			return stop(err)
		}
		if err := s.Create(ctx, name, protection); err != nil {
			return stop(err)
		}
	}
	for name, value := range map[string]string{
		"storageAccount": s.Account, "storageKey": s.Key, "trustedCaCert": string(s.CA.PEM),
		"subscriptionID": azworm.Subscription, "resourceGroup": azworm.ResourceGroup, "managementEndpoint": s.Management,
	} {
		if err := write(filepath.Join(temp, "key", name), value); err != nil {
			return stop(err)
		}
		if name == "storageKey" {
			continue
		}
		if err := write(filepath.Join(temp, "ambient", name), value); err != nil {
			return stop(err)
		}
	}
	token := filepath.Join(temp, "token")
	if err := write(token, "assertion"); err != nil {
		return stop(err)
	}
	err = announce(envFile,
		"AZURE_ENDPOINT="+s.Endpoint, "AZURE_CA_FILE="+s.CAFile,
		"AZURE_APPLICATION_CREDENTIALS="+filepath.Join(temp, "key"), "AZURE_AMBIENT_CREDENTIALS="+filepath.Join(temp, "ambient"),
		"AZURE_AUTHORITY_HOST="+s.Management, "AZURE_TENANT_ID=tenant", "AZURE_CLIENT_ID=client", "AZURE_FEDERATED_TOKEN_FILE="+token)
	if err != nil {
		return stop(err)
	}
	select {
	case <-ctx.Done():
	case <-s.Ended():
	}
	return stop(nil)
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// parseContainer reads NAME:KIND[:DAYS].
func parseContainer(spec string) (name string, p azworm.Protection, err error) {
	parts := strings.Split(spec, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || !slices.Contains(azureKinds, parts[1]) {
		return "", p, fmt.Errorf("container %q: want NAME:KIND[:DAYS] with one of the kinds %v", spec, azureKinds)
	}
	kind := parts[1]
	p.VersionLevel, p.Locked = strings.HasPrefix(kind, "versions"), kind == "locked" || kind == "versions-locked"
	if kind != "plain" && kind != "versions" {
		p.Days = 1
	}
	if len(parts) == 3 {
		days, err := strconv.ParseInt(parts[2], 10, 32)
		if err != nil || days < 1 || p.Days == 0 {
			return "", p, fmt.Errorf("container %q: days must be a whole number from 1, and the kind one with a policy", spec)
		}
		p.Days = int32(days)
	}
	return parts[0], p, nil
}
