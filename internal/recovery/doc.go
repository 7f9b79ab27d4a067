// Package recovery makes a job again when the store is behind what its nodes have seen: it was
// wiped, set back to an older copy, or replaced (docs/PROTOCOL.md, section 10).
// rendezvous.Claim.Ahead decides whether the store is behind, and reclaim.Decide what is made of
// the claims. Both are pure. This package writes the claim of one node, reads its disk, and sends
// the transaction that makes the job again.
package recovery
