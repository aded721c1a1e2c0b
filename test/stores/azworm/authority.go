package azworm

import (
	"encoding/json"
	"net/http"
	"strings"
)

// powerless is an assertion, and a token, of somebody who is known and may do nothing.
const powerless = "powerless"

// authority answers as the host of tokens does, for clients with a workload identity: any
// assertion that is not empty is given Options.Token. It returns false for other requests.
//
//	learn.microsoft.com/entra/identity-platform/v2-oauth2-client-creds-grant-flow
func (s *Shim) authority(w http.ResponseWriter, r *http.Request) bool {
	answer := func(status int, body map[string]any) bool {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
		return true
	}
	tenant, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	base := "https://" + r.Host + "/" + tenant
	switch rest {
	case "v2.0/.well-known/openid-configuration":
		return answer(http.StatusOK, map[string]any{
			"issuer": base + "/v2.0", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token",
		})
	case "oauth2/v2.0/token":
		if r.FormValue("client_assertion") == powerless {
			return answer(http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": powerless})
		}
		token := identityToken + r.FormValue("client_assertion")
		if _, known := s.identity(token); known {
			return answer(http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": token})
		}
		if s.opts.Token == "" || r.FormValue("client_assertion") == "" {
			return answer(http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "AADSTS700016: the client is not known"})
		}
		return answer(http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": s.opts.Token})
	}
	return false
}
