package run

import (
	"context"
	"encoding/json"
	"os"
	"strconv"

	"github.com/elasticd/elastic/internal/cli/target"
	"github.com/elasticd/elastic/pkg/rendezvous"
	"github.com/elasticd/elastic/pkg/schema"
)

// errorFileName is the variable with which a scheduler (torchx, Kubeflow) asks a launcher for the file
// of the first failure.
const errorFileName = "TORCHELASTIC_ERROR_FILE"

// leaveErrorFile writes the first failure of a failed job to path, in the form of torch's @record.
func leaveErrorFile(ctx context.Context, path string, s *target.Server, job schema.Job) error {
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()
	snap, err := rendezvous.Read(ctx, s, job)
	if err != nil || snap.Job == nil || !target.Ended(&snap) || snap.World.Phase != rendezvous.Failed ||
		snap.World.Outcome == nil {
		return err
	}
	text, err := json.Marshal(recorded(snap.World.Outcome))
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// record is the content of torch's error file.
type record struct {
	Message struct {
		Message   string            `json:"message"`
		ExtraInfo map[string]string `json:"extraInfo"`
	} `json:"message"`
	ErrorCode int `json:"errorCode"`
}

// recorded returns the error file of a job that failed.
func recorded(o *rendezvous.Outcome) (r record) {
	r.Message.Message, r.ErrorCode = o.Message, o.Code
	if f := o.Failure; f != nil {
		if f.Message != "" {
			r.Message.Message = f.Message
		}
		r.Message.ExtraInfo = map[string]string{"py_callstack": f.Detail,
			"timestamp": strconv.FormatInt(f.Time.Unix(), 10)}
	}
	return r
}
