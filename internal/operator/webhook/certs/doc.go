// Package certs gives the webhook certificates that the API server trusts, and renews them while both
// go on working.
//
//	material.go   what stands in the Secret: authorities, the key of the newest, the server's certificate
//	decide.go     what is made anew, and when; pure but for the random numbers of keys
//	keeper.go     does it, in one operator: the Secret first, then the API server's configuration
//	serving.go    reads the Secret, in every operator, for who connects
//
// A new authority is trusted before anything is signed with it, and an old one until it has ended. So it
// does not matter which operator serves which certificate at a moment, nor when the API server learns of
// a new authority. Nothing is remembered that could be lost: after a crash at any place the next look
// goes on from what is there.
//
// It is not used where certificates come from files, such as those of cert-manager.
package certs
