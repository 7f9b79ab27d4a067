package main

import (
	"fmt"
	"net"
	"strconv"
)

// world has the values that elastic gives this worker. Without elastic it has the values for
// training alone.
type world struct {
	job                    string
	generation, rank, size int
	master                 string // where rank 0 listens

	// Each step uses global samples, in accum micro-batches, of which this rank takes batch each.
	// weight makes the plain average over ranks exact.
	global, batch, accum int
	weight, lr           float64
	warmup               warmup

	resume          string // the checkpoint to start from; empty = the newest save, if any
	progress, drain string // files
}

func readEnv(getenv func(string) string, c config) (world, error) {
	var bad error
	float := func(name string, otherwise float64) float64 {
		if getenv(name) == "" {
			return otherwise
		}
		v, err := strconv.ParseFloat(getenv(name), 64)
		if err != nil {
			bad = fmt.Errorf("%s: %w", name, err)
		}
		return v
	}
	integer := func(name string, otherwise int) int { return int(float(name, float64(otherwise))) }

	w := world{
		job:        getenv("ELASTIC_JOB_ID"),
		generation: integer("ELASTIC_GENERATION", 1),
		rank:       integer("RANK", 0),
		size:       integer("WORLD_SIZE", 1),
		master:     net.JoinHostPort(getenv("MASTER_ADDR"), getenv("MASTER_PORT")),
		resume:     getenv("ELASTIC_RESUME_FROM"),
		progress:   getenv("ELASTIC_PROGRESS_FILE"),
		drain:      getenv("ELASTIC_DRAIN_FILE"),
	}
	// Without --batch-size and --lr the batch of each worker is fixed. The rate grows with the
	// world, like the global batch.
	w.batch = integer("ELASTIC_BATCH_SIZE", c.baseBatch)
	w.accum = integer("ELASTIC_GRAD_ACCUM_STEPS", 1)
	w.global = integer("ELASTIC_GLOBAL_BATCH_SIZE", w.batch*w.size)
	w.weight = float("ELASTIC_LOSS_WEIGHT", 1)
	w.lr = float("ELASTIC_LR", c.baseLR*float("ELASTIC_LR_SCALE", 1))
	w.warmup = warmup{int64(integer("ELASTIC_WARMUP_BEGIN", 0)), int64(integer("ELASTIC_WARMUP_SAMPLES", 0)),
		float("ELASTIC_WARMUP_LR_SCALE", 1) / float("ELASTIC_LR_SCALE", 1)}
	if bad == nil && (w.rank < 0 || w.rank >= w.size || w.batch < 1 || w.accum < 1 ||
		w.global < w.size*w.accum) {
		bad = fmt.Errorf("rank %d of %d with a batch of %d x %d out of %d is impossible",
			w.rank, w.size, w.batch, w.accum, w.global)
	}
	return w, bad
}

// warmup is a gradual increase of the rate, after the world changed.
type warmup struct {
	begin, samples int64
	from           float64 // the rate at begin
}

// rate returns the learning rate of the step at a position in samples.
func (w world) rate(at int64) float64 {
	if at >= w.warmup.begin+w.warmup.samples {
		return w.lr
	}
	done := float64(max(at-w.warmup.begin, 0)) / float64(w.warmup.samples)
	return w.lr * (w.warmup.from + (1-w.warmup.from)*done)
}
