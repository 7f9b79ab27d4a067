package coordinator

import (
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Logger writes warnings and errors as text.
func Logger(w io.Writer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.TimeEncoderOfLayout(time.RFC3339)
	enc.CallerKey, enc.StacktraceKey = "", ""
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(w)),
		zapcore.WarnLevel)
	return zap.New(quiet{core})
}

// quiet drops warnings that etcd prints at each start, and those about settings that are intended.
type quiet struct{ zapcore.Core }

func (q quiet) With(f []zapcore.Field) zapcore.Core { return quiet{q.Core.With(f)} }

func (q quiet) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if q.Enabled(e.Level) {
		return ce.AddCore(e, q)
	}
	return ce
}

func (q quiet) Write(e zapcore.Entry, fields []zapcore.Field) error {
	switch e.Message {
	case "scheme is http or unix while key and cert files are present; ignoring key and cert files",
		"scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL",
		"simple token is not cryptographically signed",
		"closing client listener",
		"serving client traffic insecurely; this is strongly discouraged!",
		"Failed to detect storage schema version. Please wait till wal snapshot before upgrading cluster.":
		return nil
	case "Failed to detect schema version", "failed to update storage version":
		// etcd checks a new store before its first entry is on disk, and again later.
		if slices.ContainsFunc(fields, func(f zapcore.Field) bool {
			err, ok := f.Interface.(error)
			return ok && strings.Contains(err.Error(), "missing term information")
		}) {
			return nil
		}
	}
	return q.Core.Write(e, fields)
}

// muted is the logger of a server. It drops the messages about listeners that are closed on
// purpose.
type muted struct {
	zapcore.Core
	closing *atomic.Bool
}

func (m muted) With(f []zapcore.Field) zapcore.Core { return muted{m.Core.With(f), m.closing} }

func (m muted) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if m.closing.Load() && e.Level < zapcore.DPanicLevel {
		return ce
	}
	return m.Core.Check(e, ce)
}
