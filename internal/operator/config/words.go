package config

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// serviceAccountPrefix begins the user names of ServiceAccounts.
const serviceAccountPrefix = "system:serviceaccount:"

func isAddress(s string) error {
	if s == "" {
		return nil
	}
	if _, err := netip.ParseAddr(s); err != nil {
		return errors.New("write it like 127.0.0.1 or ::1")
	}
	return nil
}

func isAbsoluteOrEmpty(s string) error {
	if s != "" && !filepath.IsAbs(s) {
		return errors.New("begin it with /")
	}
	return nil
}

func isName(s string) error {
	if errs := validation.IsDNS1123Subdomain(s); len(errs) > 0 {
		return errors.New("use a-z, 0-9, '-' and '.', at most 253 of them")
	}
	return nil
}

func isNameOrEmpty(s string) error {
	if s == "" {
		return nil
	}
	return isName(s)
}

func isNamespace(s string) error {
	if s == "" {
		return nil
	}
	if errs := validation.IsDNS1123Label(s); len(errs) > 0 {
		return errors.New("use a-z, 0-9 and '-', at most 63 of them")
	}
	return nil
}

func isServiceAccount(s string) error {
	rest, ok := strings.CutPrefix(s, serviceAccountPrefix)
	namespace, name, both := strings.Cut(rest, ":")
	if !ok || !both || namespace == "" || name == "" || isNamespace(namespace) != nil || isName(name) != nil {
		return fmt.Errorf("write it like %sgarden:etcd-druid", serviceAccountPrefix)
	}
	return nil
}

func isServiceAccountOrEmpty(s string) error {
	if s == "" {
		return nil
	}
	return isServiceAccount(s)
}

func isContentType(s string) error {
	switch s {
	case "", "application/json":
		return nil
	case "application/vnd.kubernetes.protobuf":
		return errors.New("custom resources have no such form; leave it empty and built-in objects are sent so")
	}
	return errors.New("leave it empty")
}

func areMediaTypes(s string) error {
	if s == "" {
		return nil
	}
	for _, item := range strings.Split(s, ",") {
		if t, _, err := mime.ParseMediaType(strings.TrimSpace(item)); err != nil || !strings.Contains(t, "/") {
			return errors.New("write them like application/vnd.kubernetes.protobuf,application/json")
		}
	}
	return nil
}

// imageReference is [HOST[:PORT]/]PATH[:TAG][@DIGEST].
var imageReference = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?/)?` +
	`[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*` +
	`(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?$`)

// isImage accepts an empty text; that there is an image in the end is checked as a whole.
func isImage(s string) error {
	if s != "" && !imageReference.MatchString(s) {
		return errors.New("it is [HOST[:PORT]/]PATH[:TAG][@DIGEST]")
	}
	return nil
}

// hostPort is a Listener in one word, as [ADDRESS]:PORT. It is a flag only.
type hostPort struct{ p *Listener }

func (v hostPort) parse(texts []string) error {
	host, port, err := net.SplitHostPort(last(texts))
	n, numberErr := strconv.Atoi(port)
	if err != nil || numberErr != nil {
		return fmt.Errorf("%q is not %s", last(texts), v.kind())
	}
	*v.p = Listener{BindAddress: host, Port: n}
	return nil
}
func (v hostPort) text() string { return net.JoinHostPort(v.p.BindAddress, strconv.Itoa(v.p.Port)) }
func (v hostPort) kind() string { return "an address and a port like :8080 or 127.0.0.1:8080" }
