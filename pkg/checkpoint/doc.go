// Package checkpoint is what etcd knows of the checkpoints of a job: Record reads and writes ckpt/
// and held/, and Record.Commit alone makes a save a checkpoint. Retention says which records go,
// Salvage from which checkpoints of a disk a job that lost its store could start.
//
// Below it are manifest (what a checkpoint consists of), dirfs (files that are written whole or not
// at all), chunkstore (the checkpoints on the disk of a node), capture (finds complete saves),
// parts (which parts of several nodes make one checkpoint), transfer (moves chunks between nodes),
// replicator (keeps the disk of a node in step with the record) and pipeline (carries the saves of
// one generation from capture to commit).
//
// # Guarantees
//
// A commit is acknowledged only after as many nodes as asked for, on different machines where there
// are any, have the bytes verified and durable, and after the record was read back. No generation
// older than the newest proposed one can commit. What is restored is identical bit by bit, or an
// error.
package checkpoint
