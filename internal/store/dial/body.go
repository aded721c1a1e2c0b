package dial

import "fmt"

// BodyRefused describes HTTP 413 without an error of the protocol that the store speaks: a proxy
// before the store refused the body. part is the largest body that is sent.
func BodyRefused(protocol string, part int64) (said, remedy string) {
	return "the body is too large for a proxy before the store, since the answer is not one of " + protocol + " (HTTP 413)",
		"raise the proxy's limit (nginx: client_max_body_size; ingress-nginx: the annotation nginx.ingress.kubernetes.io/proxy-body-size) above the size of a part" +
			PartSize(part) + ", connect without the proxy, or lower --min-chunk-size if it is above its minimum"
}

// PartSize names the size of the parts of an upload, for messages.
func PartSize(n int64) string { return fmt.Sprintf(", which is %d bytes", n) }
