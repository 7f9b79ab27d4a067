// Package checkpoint is the record of a job's checkpoints in etcd. Record reads and writes ckpt/
// and held/. Only Record.Commit makes a save a checkpoint. Retention chooses the records to remove.
// Salvage finds the checkpoints of a disk from which a job that lost its store can start.
//
// Below it are manifest (what a checkpoint consists of), dirfs (files that are written whole or not
// at all), chunkstore (the checkpoints on the disk of a node), capture (finds complete saves),
// parts (which parts of several nodes make one checkpoint), transfer (moves chunks between nodes),
// replicator (keeps the disk of a node in step with the record) and pipeline (carries the saves of
// one generation from capture to commit).
//
// # Guarantees
//
// A commit is acknowledged only after the wanted number of nodes, on different machines if there
// are any, have the bytes verified and durable, and the record was read back. No generation older
// than the newest proposed one can commit. A restored checkpoint is identical bit by bit, or there
// is an error.
package checkpoint
