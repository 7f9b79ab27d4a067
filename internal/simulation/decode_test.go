package simulation

import (
	"encoding/json"
	"reflect"
	"testing"
	"testing/cryptotest"
	"testing/synctest"

	"github.com/elasticd/elastic/pkg/store"
)

// In a simulation all agents share the decoded form of a record, so none of them may change it: in
// a process of its own no other agent would see the change.
func TestSharedRecordsStayAsTheyAre(t *testing.T) {
	checked := 0
	for seed := range uint64(6) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			s := newFaulty(t, seed, everyFault())
			s.rounds(1)
			for _, c := range s.etcd.History(0) {
				for _, e := range c.Events {
					checked += sameAsStored(t, e.Entry)
				}
			}
		})
	}
	if checked == 0 {
		t.Error("no record was shared")
	}
}

// sameAsStored decodes e anew, and compares. It returns how many records it compared.
func sameAsStored(t *testing.T, e store.Entry) int {
	if e.Memo == nil || e.Memo.Value() == nil {
		return 0
	}
	fresh := reflect.New(reflect.TypeOf(e.Memo.Value()))
	if err := json.Unmarshal(e.Value, &struct {
		Record any `json:"record"`
	}{fresh.Interface()}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fresh.Elem().Interface(), e.Memo.Value()) {
		t.Errorf("%s is %s, and agents share %+v", e.Key, e.Value, e.Memo.Value())
	}
	return 1
}
