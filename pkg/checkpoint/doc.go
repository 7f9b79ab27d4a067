// Package checkpoint turns what workers save into checkpoints that survive the loss
// of a machine, and brings them back. It knows the generation of the workers that
// wrote the bytes, never a World.
//
//	Pipeline  carries the saves of one generation: found, stored, replicated, committed
//	Record    is ckpt/ and held/ in etcd; Record.Commit alone makes a save a checkpoint
//	Keeper    starts a Pipeline for a generation, prepares the next one, retains
//
// Below it are manifest (what a checkpoint consists of), dirfs (files that are there
// whole or not at all), chunkstore (a node's disk of checkpoints), capture (finds
// complete saves) and transfer (moves checkpoints between nodes).
//
// # Guarantees
//
// A commit is acknowledged only after as many nodes as asked for, on different
// machines where there are any, have the bytes verified and durable, and after the
// record was read back. No generation older than the newest proposed one can commit.
// What is restored is identical bit by bit, or an error.
package checkpoint
