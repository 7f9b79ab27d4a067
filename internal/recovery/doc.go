// Package recovery makes a job again for which the store is behind what its nodes have seen: the
// store was wiped, set back to an older copy, or replaced (docs/PROTOCOL.md, section 10). Whether
// it is behind is rendezvous.Claim.Ahead, what is made of the claims is reclaim.Decide, both
// pure; this package writes the claim of one node, looks at its disk, and sends the one transaction
// that makes the job again.
package recovery
