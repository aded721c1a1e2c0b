// Package certs gives the webhook certificates that the API server trusts, and renews them while both
// go on working.
//
//	material.go   what stands in the Secret: authorities, the key of the newest, the server's certificate
//	decide.go     what is made anew, and when; pure but for the random numbers of keys
//	keeper.go     does it, in the operator that leads: the Secret first, then the API server's configuration
//	first.go      makes what is missing at the start, in every operator
//	serving.go    reads the Secret, in every operator, for who connects
//
// A new authority is trusted before anything is signed with it, and an old one until it has ended. So it
// does not matter which operator serves which certificate at a moment, nor when the API server learns of
// a new authority. Nothing is remembered that could be lost: after a crash at any place the next look
// goes on from what is there.
//
// Several may write at the same moment: what somebody else wrote since it was read is not written over but read
// again. All the same only the leader judges what is due or has ended, as clocks and versions of operators
// differ, and two that disagree would replace each other's certificates for ever.
//
// It is not used where certificates come from files, such as those of cert-manager.
package certs
