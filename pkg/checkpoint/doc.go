// Package checkpoint takes what workers save to other machines, and brings it
// back: capture, put, replicate, commit, fetch, restore, retain. It knows the
// generation of the workers that wrote the bytes, never a World.
//
//	Capture  looks into the checkpoint directory and finds complete saves
//	Store    is one node's disk: chunks by their hash, manifests by theirs
//	Copier   replicates to, and fetches from, the stores of other nodes (Peers, Handler)
//	Record   is ckpt/ and held/ in etcd; its Commit is the only thing that makes a save a checkpoint
//	Keeper   joins them: Start a Line for a generation, Prepare for the next one
//
// # What a save is
//
// Workers write below one directory and tell nobody. A save is a picture of
// that directory: its newest step, and what lies beside it. An entry is a name
// at the top of the directory, a file or a directory with all below it.
//
// Never part of a save: hidden names, names that programs rename later (tmp…,
// ….tmp, ….part, …~ and their like), logs (*.log, *.jsonl, tfevents, runs, logs,
// wandb and their like), symbolic links, devices, pipes. Text that grows for
// seconds without a pause, beside a save, is a log too.
//
// An entry that counts something up (step-120, epoch_3.pt, checkpoint-500,
// iter_0000100, or a bare number in front) makes the older entries of its
// family, the same name but for the numbers, obsolete: a picture has the newest only. Of other numbered
// names (rank_0.pt) those go that stayed as they were when a new name came into
// their family. All else belongs together: model.pt and optimizer.pt, changed
// or not, are in each picture, and a file that did not change costs nothing.
//
// A picture is taken when something changed since the last one and every
// changed entry is complete:
//
//   - told: .elastic-commit in the directory, or NAME.elastic-commit beside
//     a file, written after the bytes: {"step":120,"samples":30720}. Where
//     this is used once nothing else counts any more;
//   - renamed to its name, file or directory: at once;
//   - a directory with its framework's mark (Hugging Face's trainer_state.json
//     and no checkpoint-is-incomplete.txt, DCP's .metadata, the tracker files of
//     Megatron and DeepSpeed naming it) once it is quiet;
//   - a file written in place whose format says that it is whole (zip: torch.save,
//     numpy; pickle: paddle.save; safetensors): at once when it is alone, or when
//     the files that belong together have been quiet for a moment;
//   - any other file or directory: when it has been quiet for a second, and
//     every file whose format is known is whole.
//
// After the workers ended by themselves nothing is waited for. If a signal
// ended them, what was written in place is not taken: who knows what was to come.
//
// # What is promised
//
// A commit is acknowledged only after as many nodes as asked for, on different
// machines where there are any, have the bytes verified and durable, and after
// it was read back; no generation older than the newest proposed one can
// commit; what is restored is bit-identical or an error. Every file is there
// whole or not at all: a temporary name, fsync, rename, fsync of the directory.
package checkpoint
