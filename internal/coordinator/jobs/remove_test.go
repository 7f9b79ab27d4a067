package jobs

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

func stored(fields string) string { return `{"format":1,"record":{` + fields + `}}` }

func TestEnded(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]bool{
		stored(`"phase":"done","time":"2026-01-02T03:04:05Z"`):                 true,
		stored(`"phase":"failed","time":"2026-01-02T03:04:05Z","more":[1]`):    true,
		stored(`"phase":"stopped","time":"2026-01-02T03:04:05Z"`):              true,
		stored(`"phase":"running","time":"2026-01-02T03:04:05Z"`):              false,
		stored(`"phase":"waiting","time":"2026-01-02T03:04:05Z"`):              false,
		stored(`"phase":"done"`):                                               false,
		stored(`"phase":3,"time":"2026-01-02T03:04:05Z"`):                      false,
		`{"format":3,"record":{"phase":"done","time":"2026-01-02T03:04:05Z"}}`: false,
		`nonsense`: false,
	} {
		when, ok := ended(&mvccpb.KeyValue{Key: []byte("k"), Value: []byte(value)})
		if ok != want || ok && !when.Equal(at) {
			t.Errorf("%s: %v at %v, want %v", value, ok, when, want)
		}
	}
}
