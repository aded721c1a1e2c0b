package datadir

// Membership is the new cluster as one of its members sees it.
type Membership struct {
	Name           string   // of this member
	InitialCluster string   // NAME=PEERURL,NAME=PEERURL,... of all members, this one included
	Token          string   // initial cluster token
	PeerURLs       []string // this member's own; must be those of InitialCluster. Empty: taken from there
}
